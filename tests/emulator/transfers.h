// Counts the transfers that the accesses of warps need on a card: sectors of 32 bytes of global memory, and passes over
// the 32 banks of shared memory. The k-th access of an instruction by each of a warp's threads makes one request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

const unsigned WARP = 32;
const uintptr_t SECTOR = 32, WORD = 4, BANKS = 32;

// The requests of an instruction, or of many.
struct Transfers {
    uint64_t requests = 0;
    uint64_t transfers = 0;
    // The transfers of the same bytes if they lay one after the other.
    uint64_t least = 0;
};

class TransferCount {
    struct Access {
        uintptr_t begin;
        unsigned bytes;
    };
    // Accesses of each thread of a warp since the last barrier, by instruction and warp.
    typedef std::vector<std::vector<Access>> Lanes;
    std::map<std::tuple<void*, unsigned, bool>, Lanes> waiting;

    // The numbers of the units that these accesses touch, each once.
    static std::vector<uintptr_t> units(const std::vector<Access>& accesses, uintptr_t unit) {
        std::vector<uintptr_t> all;
        for (const Access& a : accesses) {
            for (uintptr_t u = a.begin / unit; u <= (a.begin + a.bytes - 1) / unit; ++u) all.push_back(u);
        }
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
    }

    static void of_global(const std::vector<Access>& accesses, Transfers& to) {
        to.transfers += units(accesses, SECTOR).size();
        to.least += (units(accesses, 1).size() + SECTOR - 1) / SECTOR;
    }

    // Shared memory serves 128 bytes at a time: half a warp of 8 bytes, a quarter of 16.
    static void of_shared(const std::vector<Access>& accesses, Transfers& to) {
        const size_t all = WARP * WORD / std::max<uintptr_t>(WORD, accesses[0].bytes);
        const size_t lanes = std::max<size_t>(1, all);
        for (size_t from = 0; from < accesses.size(); from += lanes) {
            const size_t end = std::min(accesses.size(), from + lanes);
            const std::vector<Access> part(accesses.begin() + from, accesses.begin() + end);
            unsigned in_bank[BANKS] = {};
            const std::vector<uintptr_t> words = units(part, WORD);
            for (uintptr_t word : words) ++in_bank[word % BANKS];
            to.transfers += *std::max_element(in_bank, in_bank + BANKS);
            to.least += (words.size() + BANKS - 1) / BANKS;
        }
    }

public:
    Transfers global, shared;

    void add(void* place, unsigned thread, bool in_shared, uintptr_t begin, unsigned bytes) {
        Lanes& lanes = waiting[{place, thread / WARP, in_shared}];
        lanes.resize(WARP);
        lanes[thread % WARP].push_back({begin, bytes});
    }

    // Counts the accesses since the last barrier.
    void flush() {
        for (auto& [key, lanes] : waiting) {
            const bool in_shared = std::get<2>(key);
            Transfers& to = in_shared ? shared : global;
            for (size_t k = 0;; ++k) {
                std::vector<Access> request;
                for (const std::vector<Access>& lane : lanes) {
                    if (k < lane.size()) request.push_back(lane[k]);
                }
                if (request.empty()) break;
                ++to.requests;
                (in_shared ? of_shared : of_global)(request, to);
            }
        }
        waiting.clear();
    }
};
