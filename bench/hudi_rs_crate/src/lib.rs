//! hudi-rs's streaming read of a snapshot as an Arrow C stream, for callers without Rust.

use std::ffi::{c_char, c_int, CStr};
use std::ptr;
use std::sync::OnceLock;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use futures::stream::BoxStream;
use futures::StreamExt;
use hudi_core::error::Result;
use hudi_core::table::{ReadOptions, Table};
use tokio::runtime::Runtime;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("tokio starts its threads"))
}

struct Batches {
    schema: SchemaRef,
    first: Option<RecordBatch>,
    rest: BoxStream<'static, Result<RecordBatch>>,
}

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batch) = self.first.take() {
            return Some(Ok(batch));
        }
        let batch = runtime().block_on(self.rest.next())?;
        Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

async fn open(path: &str, columns: &str) -> Result<Batches> {
    let table = Table::new(path).await?;
    let mut options = ReadOptions::new();
    if !columns.is_empty() {
        options = options.with_projection(columns.split(','));
    }
    let mut rest = table.read_stream(&options).await?;
    let first = rest.next().await.transpose()?;
    let schema = first.as_ref().map_or_else(|| Schema::empty().into(), RecordBatch::schema);
    Ok(Batches { schema, first, rest })
}

/// Writes the stream of the table's newest rows to `out`. `columns` are names that commas separate; all if empty.
/// Returns 0, or 1 after it has printed an error.
///
/// # Safety
/// `path` and `columns` are texts that end with NUL; `out` has room for a stream, which the caller releases.
#[no_mangle]
pub unsafe extern "C" fn open_stream(
    path: *const c_char,
    columns: *const c_char,
    out: *mut FFI_ArrowArrayStream,
) -> c_int {
    let path = CStr::from_ptr(path).to_string_lossy();
    let columns = CStr::from_ptr(columns).to_string_lossy();
    match runtime().block_on(open(&path, &columns)) {
        Ok(batches) => {
            ptr::write(out, FFI_ArrowArrayStream::new(Box::new(batches)));
            0
        }
        Err(error) => {
            eprintln!("hudi-rs: {path}: {error}");
            1
        }
    }
}
