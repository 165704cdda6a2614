//! A block as bytes: an Arrow IPC record batch message, preceded by the dictionaries it needs, if any.
//!
//! Each buffer is LZ4-compressed where that makes it smaller. The schema is not repeated; it is in the footer.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{read_dictionary, read_record_batch};
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow::ipc::{CompressionType, MessageHeader, MetadataVersion, root_as_message};

/// Messages and buffers start at multiples of this, so that most are used in place.
const ALIGNMENT_BYTES: usize = 8;
/// A continuation marker and the length of the metadata precede every message.
const PREFIX_BYTES: usize = 8;

/// Writes blocks of one schema; keeps its scratch memory between them.
pub struct BlockEncoder {
    schema: SchemaRef,
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl BlockEncoder {
    pub fn try_new(schema: SchemaRef) -> Result<Self, ArrowError> {
        let options = IpcWriteOptions::try_new(ALIGNMENT_BYTES, false, MetadataVersion::V5)?
            .try_with_compression(Some(CompressionType::LZ4_FRAME))?;
        Ok(Self { schema, options, context: IpcWriteContext::default() })
    }

    /// The schema as the footer has it. Decoding needs this very one: it numbers the dictionaries.
    pub fn schema_message(&self) -> Vec<u8> {
        let mut tracker = DictionaryTracker::new(false);
        IpcDataGenerator::default()
            .schema_to_bytes_with_dictionary_tracker(&self.schema, &mut tracker, &self.options)
            .ipc_message
    }

    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let generator = IpcDataGenerator::default();
        // A new tracker each time: every block must be readable alone.
        let mut tracker = DictionaryTracker::new(false);
        generator.schema_to_bytes_with_dictionary_tracker(&self.schema, &mut tracker, &self.options);
        let (dictionaries, message) =
            generator.encode(batch, &mut tracker, &self.options, &mut self.context)?;
        let mut bytes = Vec::with_capacity(message.arrow_data.len() + message.ipc_message.len() + 64);
        for message in dictionaries.into_iter().chain([message]) {
            write_message(&mut bytes, message, &self.options)?;
        }
        Ok(bytes)
    }
}

/// `bytes` must have passed their checksum: Arrow's decoder trusts lengths that it finds.
pub fn decode(bytes: &Buffer, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let mut dictionaries = HashMap::new();
    let mut at = 0;
    loop {
        let message_length = bytes
            .get(at + 4..at + PREFIX_BYTES)
            .and_then(|length| Some(u32::from_le_bytes(length.try_into().ok()?) as usize))
            .ok_or_else(|| malformed("the block ends before its record batch"))?;
        let body_start = at + PREFIX_BYTES + message_length;
        let message = bytes
            .get(at + PREFIX_BYTES..body_start)
            .ok_or_else(|| malformed("a message is longer than the block"))?;
        let message = root_as_message(message).map_err(|error| malformed(&error.to_string()))?;
        let body_length = usize::try_from(message.bodyLength())
            .ok()
            .filter(|length| *length <= bytes.len() - body_start)
            .ok_or_else(|| malformed("the body of a message is longer than the block"))?;
        let body = bytes.slice_with_length(body_start, body_length);
        match message.header_type() {
            MessageHeader::DictionaryBatch => {
                let header =
                    message.header_as_dictionary_batch().ok_or_else(|| malformed("no dictionary"))?;
                read_dictionary(&body, header, schema, &mut dictionaries, &message.version())?;
            }
            MessageHeader::RecordBatch => {
                let header = message.header_as_record_batch().ok_or_else(|| malformed("no record batch"))?;
                let schema = SchemaRef::clone(schema);
                return read_record_batch(&body, header, schema, &dictionaries, None, &message.version());
            }
            other => return Err(malformed(&format!("unexpected message {other:?}"))),
        }
        at = body_start + body_length;
    }
}

fn malformed(reason: &str) -> ArrowError {
    ArrowError::IpcError(reason.to_owned())
}
