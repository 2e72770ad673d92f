// The elements that fake libraries compute with.
#pragma once

#include <cstdint>
#include <cstring>

// The upper half of a float.
struct Bf16 {
    uint16_t bits;

    Bf16() = default;
    explicit Bf16(double value) {
        const float single = value;
        uint32_t whole;
        memcpy(&whole, &single, 4);
        // To the nearest; of two that are as near, to the even one.
        bits = (whole + 0x7fff + ((whole >> 16) & 1)) >> 16;
    }
    operator double() const {
        const uint32_t whole = (uint32_t)bits << 16;
        float single;
        memcpy(&single, &whole, 4);
        return single;
    }
};
