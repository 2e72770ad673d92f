//! Writes the seed corpora: `seeds FOLDER` makes `FOLDER/TARGET/...`, for the targets of files, graphs and calls.

use std::path::{Path, PathBuf};

use thalweg_checkpoint::bundle::{data_path, index_path};
use thalweg_checkpoint::{BundleWriter, SliceSpec, save_weights};
use thalweg_fuzz::weights::{save_bundle, saved};
use thalweg_summary::{EventReader, SessionEvent, SummaryWriter};
use thalweg_tensor::{DType, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("seeds FOLDER")?);
    let put = |target: &str, name: &str, parts: &[&[u8]]| {
        let place = folder.join(target);
        std::fs::create_dir_all(&place)?;
        std::fs::write(place.join(name), parts.concat())
    };

    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/checkpoints");
    for name in [
        "dtypes",
        "partitions-12",
        "sharded-3",
        "text_parts",
        "objects/ckpt-3",
        "run/model.ckpt-4",
    ] {
        let index = std::fs::read(index_path(&golden.join(name)))?;
        let name = name.replace('/', "-");
        put("bundle_index", &name, &[&[0], &index])?;
        put(
            "bundle_index",
            &format!("{name}-block"),
            &[&[1], block_of(&index)],
        )?;
    }
    let prefix = save_bundle();
    // The target's data are zeros: these are read to the end.
    let zeros = prefix.with_file_name("zeros");
    let mut writer = BundleWriter::create(&zeros)?;
    for (slice, dims) in [
        ("6 2 0,2:-", [2, 2]),
        ("6 2 2,4:0,1", [4, 1]),
        ("6 2 2,4:1,1", [4, 1]),
    ] {
        let part = Tensor::zeros(DType::F32, &dims)?;
        writer.add_slice("parts", &SliceSpec::parse(slice)?, &part)?;
    }
    writer.add("step", &Tensor::scalar(0i64))?;
    writer.finish()?;
    let index = std::fs::read(index_path(&zeros))?;
    put("bundle_index", "zeros", &[&[0], &index])?;
    put("bundle_index", "zeros-block", &[&[1], block_of(&index)])?;

    put(
        "bundle_data",
        "saved",
        &[&[0], &std::fs::read(data_path(&prefix, 0, 1))?],
    )?;
    put("bundle_data", "strings", &[b"\x07\x01\x02\x00abc"])?;
    let file = prefix.with_file_name("seed.safetensors");
    save_weights(
        &file,
        saved().into_iter().filter(|(name, _)| *name != "text"),
    )?;
    let file = std::fs::read(file)?;
    let data = file.len() - 8 - u64::from_le_bytes(file[..8].try_into()?) as usize;
    put("safetensors", "file", &[&[0], &file])?;
    put(
        "safetensors",
        "header",
        &[&[0x80 | data as u8], &file[8..file.len() - data]],
    )?;

    let logs = prefix.with_file_name("logs");
    let writer = SummaryWriter::create(&logs)?;
    writer.scalar("loss", 0.5, 1)?;
    writer.histogram("weights", &saved()[1].1, 1)?;
    writer.session_log(SessionEvent::Checkpoint("ckpt-2"), 2)?;
    writer.close()?;
    put("events", "file", &[&std::fs::read(writer.path())?])?;
    for (i, event) in EventReader::open(writer.path())?.enumerate() {
        put(
            "events",
            &i.to_string(),
            &[&prost::Message::encode_to_vec(&event?)],
        )?;
    }
    #[cfg(feature = "sessions")]
    for (name, bytes) in thalweg_fuzz::seeds::steps() {
        put("steps", &name, &[&bytes])?;
    }
    #[cfg(feature = "cluster")]
    for (name, bytes) in thalweg_fuzz::seeds::server_calls() {
        put("server_calls", &name, &[&bytes])?;
    }
    #[cfg(feature = "cluster")]
    for (name, bytes) in thalweg_fuzz::seeds::connections() {
        put("connections", &name, &[&bytes])?;
    }
    Ok(())
}

/// The first block of an index, which is the only one in these files.
fn block_of(index: &[u8]) -> &[u8] {
    // The footer begins with the place of the next block, in seven bits a byte.
    let footer = &index[index.len() - 48..];
    let last = footer.iter().position(|b| b & 0x80 == 0).unwrap_or(0);
    let next = footer[..=last]
        .iter()
        .rev()
        .fold(0, |n, b| n << 7 | usize::from(b & 0x7f));
    &index[..next - 5]
}
