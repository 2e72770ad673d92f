//! Flags of the input images: their folder, data set and preprocessing.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
#[command(rename_all = "snake_case", next_help_heading = "Input")]
pub struct InputFlags {
    /// The folder with images: TFRecord files, LMDB, CIFAR-10's binary files, MNIST's files or a folder of pictures for each class.
    /// Synthetic images without it.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// imagenet, cifar10 or mnist.
    #[arg(long)]
    pub data_name: Option<String>,
    /// The method of resizing images.
    #[arg(long, default_value = "bilinear", value_parser = [
        "crop", "nearest", "bilinear", "bicubic", "area", "round_robin",
    ])]
    pub resize_method: String,
    /// Distorts colours.
    #[arg(long)]
    pub distortions: bool,
    /// Distorts colours as luminance and chrominance.
    #[arg(long, default_value_t = true)]
    pub distort_color_in_yiq: bool,
    /// Decodes no more than is cropped.
    #[arg(long, default_value_t = true)]
    pub fuse_decode_and_crop: bool,
    /// Reads with datasets.
    #[arg(long, default_value_t = true)]
    pub use_datasets: bool,
    /// The preprocessor of images.
    #[arg(long, default_value = "default")]
    pub input_preprocessor: String,
    /// Prepares batches before they are needed.
    #[arg(long, default_value_t = true)]
    pub datasets_use_prefetch: bool,
    /// Number of batches that are prefetched.
    #[arg(long, default_value_t = 1)]
    pub datasets_prefetch_buffer_size: usize,
    /// Threads that prepare images.
    #[arg(long)]
    pub datasets_num_private_threads: Option<usize>,
    /// Caches the images.
    #[arg(long)]
    pub datasets_use_caching: bool,
    /// Number of files that are read in parallel.
    #[arg(long)]
    pub datasets_parallel_interleave_cycle_length: Option<usize>,
    /// Reads files in any order.
    #[arg(long)]
    pub datasets_sloppy_parallel_interleave: bool,
    /// Batches that are prefetched from each file.
    #[arg(long)]
    pub datasets_parallel_interleave_prefetch: Option<usize>,
    /// Repeats one batch.
    #[arg(long)]
    pub datasets_repeat_cached_sample: bool,
    /// Batches that are buffered for each tower.
    #[arg(long, default_value_t = 1)]
    pub multi_device_iterator_max_buffer_size: usize,
}
