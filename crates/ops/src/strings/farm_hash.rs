//! FarmHash's `Fingerprint64`, which is `farmhashna::Hash64`:
//! <https://github.com/google/farmhash/blob/master/src/farmhash.cc>. Its values never change.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

/// Little-endian word of the eight bytes from `at` on.
fn fetch64(s: &[u8], at: usize) -> u64 {
    let bytes = s.get(at..at + 8).and_then(|b| b.try_into().ok());
    u64::from_le_bytes(bytes.unwrap_or_default())
}

/// Little-endian word of the four bytes from `at` on.
fn fetch32(s: &[u8], at: usize) -> u64 {
    let bytes = s.get(at..at + 4).and_then(|b| b.try_into().ok());
    u64::from(u32::from_le_bytes(bytes.unwrap_or_default()))
}

fn shift_mix(v: u64) -> u64 {
    v ^ v >> 47
}

fn hash_len_16(u: u64, v: u64, mul: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(mul));
    shift_mix((v ^ a).wrapping_mul(mul)).wrapping_mul(mul)
}

fn add(values: &[u64]) -> u64 {
    values.iter().fold(0, |sum, &v| sum.wrapping_add(v))
}

fn hash_len_0_to_16(s: &[u8]) -> u64 {
    let n = s.len();
    let mul = K2.wrapping_add(2 * n as u64);
    match n {
        0 => K2,
        1..4 => {
            let (a, b, c) = (s[0], s[n >> 1], s[n - 1]);
            let y = u64::from(a) + (u64::from(b) << 8);
            let z = n as u64 + (u64::from(c) << 2);
            shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
        }
        4..8 => hash_len_16(n as u64 + (fetch32(s, 0) << 3), fetch32(s, n - 4), mul),
        _ => {
            let a = fetch64(s, 0).wrapping_add(K2);
            let b = fetch64(s, n - 8);
            let c = b.rotate_right(37).wrapping_mul(mul).wrapping_add(a);
            let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(mul);
            hash_len_16(c, d, mul)
        }
    }
}

fn hash_len_17_to_32(s: &[u8]) -> u64 {
    let n = s.len();
    let mul = K2.wrapping_add(2 * n as u64);
    let (a, b) = (fetch64(s, 0).wrapping_mul(K1), fetch64(s, 8));
    let c = fetch64(s, n - 8).wrapping_mul(mul);
    let d = fetch64(s, n - 16).wrapping_mul(K2);
    let first = add(&[a.wrapping_add(b).rotate_right(43), c.rotate_right(30), d]);
    let second = add(&[a, b.wrapping_add(K2).rotate_right(18), c]);
    hash_len_16(first, second, mul)
}

fn hash_len_33_to_64(s: &[u8]) -> u64 {
    let n = s.len();
    let mul = K2.wrapping_add(2 * n as u64);
    let (a, b) = (fetch64(s, 0).wrapping_mul(K2), fetch64(s, 8));
    let c = fetch64(s, n - 8).wrapping_mul(mul);
    let d = fetch64(s, n - 16).wrapping_mul(K2);
    let y = add(&[a.wrapping_add(b).rotate_right(43), c.rotate_right(30), d]);
    let z = hash_len_16(y, add(&[a, b.wrapping_add(K2).rotate_right(18), c]), mul);
    let (e, f) = (fetch64(s, 16).wrapping_mul(mul), fetch64(s, 24));
    let g = y.wrapping_add(fetch64(s, n - 32)).wrapping_mul(mul);
    let h = z.wrapping_add(fetch64(s, n - 24)).wrapping_mul(mul);
    let first = add(&[e.wrapping_add(f).rotate_right(43), g.rotate_right(30), h]);
    let second = add(&[e, f.wrapping_add(a).rotate_right(18), g]);
    hash_len_16(first, second, mul)
}

fn weak_hash_len_32(s: &[u8], at: usize, a: u64, b: u64) -> (u64, u64) {
    let [w, x, y, z] = [0, 8, 16, 24].map(|i| fetch64(s, at + i));
    let a = a.wrapping_add(w);
    let b = add(&[b, a, z]).rotate_right(21);
    let sum = add(&[a, x, y]);
    let b = b.wrapping_add(sum.rotate_right(44));
    (sum.wrapping_add(z), b.wrapping_add(a))
}

/// Fingerprint of a string.
pub(crate) fn fingerprint(s: &[u8]) -> u64 {
    match s.len() {
        0..=16 => return hash_len_0_to_16(s),
        17..=32 => return hash_len_17_to_32(s),
        33..=64 => return hash_len_33_to_64(s),
        _ => {}
    }
    const SEED: u64 = 81;
    let mut x = SEED.wrapping_mul(K2).wrapping_add(fetch64(s, 0));
    let mut y = SEED.wrapping_mul(K1).wrapping_add(113);
    let mut z = shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2);
    let (mut v, mut w) = ((0u64, 0u64), (0u64, 0u64));
    // All whole blocks, except those that the last 64 bytes cover again.
    let blocks = (s.len() - 1) / 64;
    for at in (0..blocks).map(|i| i * 64) {
        x = add(&[x, y, v.0, fetch64(s, at + 8)])
            .rotate_right(37)
            .wrapping_mul(K1);
        y = add(&[y, v.1, fetch64(s, at + 48)])
            .rotate_right(42)
            .wrapping_mul(K1);
        x ^= w.1;
        y = add(&[y, v.0, fetch64(s, at + 40)]);
        z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(K1);
        v = weak_hash_len_32(s, at, v.1.wrapping_mul(K1), x.wrapping_add(w.0));
        w = weak_hash_len_32(
            s,
            at + 32,
            z.wrapping_add(w.1),
            y.wrapping_add(fetch64(s, at + 16)),
        );
        (z, x) = (x, z);
    }
    let mul = K1.wrapping_add((z & 0xff) << 1);
    let at = s.len() - 64;
    w.0 = w.0.wrapping_add((s.len() as u64 - 1) & 63);
    v.0 = v.0.wrapping_add(w.0);
    w.0 = w.0.wrapping_add(v.0);
    x = add(&[x, y, v.0, fetch64(s, at + 8)])
        .rotate_right(37)
        .wrapping_mul(mul);
    y = add(&[y, v.1, fetch64(s, at + 48)])
        .rotate_right(42)
        .wrapping_mul(mul);
    x ^= w.1.wrapping_mul(9);
    y = add(&[y, v.0.wrapping_mul(9), fetch64(s, at + 40)]);
    z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(mul);
    v = weak_hash_len_32(s, at, v.1.wrapping_mul(mul), x.wrapping_add(w.0));
    w = weak_hash_len_32(
        s,
        at + 32,
        z.wrapping_add(w.1),
        y.wrapping_add(fetch64(s, at + 16)),
    );
    (z, x) = (x, z);
    let first = add(&[hash_len_16(v.0, w.0, mul), shift_mix(y).wrapping_mul(K0), z]);
    hash_len_16(first, hash_len_16(v.1, w.1, mul).wrapping_add(x), mul)
}
