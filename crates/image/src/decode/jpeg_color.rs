//! Conversions of CMYK as TensorFlow (`jpeg_mem.cc`) computes them.

/// RGB of a pixel in CMYK, which Adobe's programs store inverted.
pub(super) fn cmyk_to_rgb([c, m, y, k]: [u8; 4], inverted: bool) -> [u8; 3] {
    [c, m, y].map(|ink| {
        let product = match inverted {
            true => u32::from(ink) * u32::from(k),
            false => u32::from(255 - ink) * u32::from(255 - k),
        };
        (product / 255) as u8
    })
}

/// Writes pixels of `N` bytes as pixels of `M` bytes.
pub(super) fn convert<const N: usize, const M: usize>(
    from: &[u8],
    to: &mut [u8],
    f: impl Fn([u8; N]) -> [u8; M],
) {
    let (from, _) = from.as_chunks::<N>();
    let (to, _) = to.as_chunks_mut::<M>();
    for (to, &from) in to.iter_mut().zip(from) {
        *to = f(from);
    }
}
