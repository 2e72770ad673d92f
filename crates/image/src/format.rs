//! Formats of image files.

/// Format of an image file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
    /// BMP.
    Bmp,
    /// GIF.
    Gif,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Jpeg => "JPEG",
            Format::Png => "PNG",
            Format::Bmp => "BMP",
            Format::Gif => "GIF",
        })
    }
}

impl Format {
    /// The format that the first bytes of a file tell, if they tell one.
    pub fn of(bytes: &[u8]) -> Option<Format> {
        let magics: [(&[u8], Format); 4] = [
            (b"\xff\xd8\xff", Format::Jpeg),
            (b"\x89PNG\r\n\x1a\n", Format::Png),
            (b"GIF8", Format::Gif),
            (b"BM", Format::Bmp),
        ];
        let found = magics.iter().find(|(magic, _)| bytes.starts_with(magic));
        found.map(|&(_, format)| format)
    }
}
