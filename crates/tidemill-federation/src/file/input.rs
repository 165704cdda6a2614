//! A file that is read from its beginning to its end, wherever it is.

use std::fs::File;
use std::io::{self, Read};

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::{GetOptions, GetRange};
use tidemill_sql::{Result, SqlError};

use super::access::Access;
use super::place::Place;
use super::url::Url;
use super::{failure, file_error};
use crate::regular;

/// Its errors have what is wrong as their source.
pub enum Input {
    Local(File),
    Remote(Box<Download>),
}

impl Input {
    pub fn open(place: &Place, access: &Access) -> Result<Self> {
        match place {
            Place::Local(path) => {
                let file = regular::open(path).map_err(|error| file_error("open", place, &error))?;
                Ok(Input::Local(file))
            }
            Place::Remote(url) => Ok(Input::Remote(Box::new(Download::begin(url, access)?))),
        }
    }
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Local(file) => file.read(to),
            Input::Remote(download) => download.read(to).map_err(io::Error::other),
        }
    }
}

/// What was wrong when a file was read.
pub fn read_error(place: &Place, error: &io::Error) -> SqlError {
    let told = error.get_ref().and_then(|inner| inner.downcast_ref::<SqlError>());
    told.cloned().unwrap_or_else(|| file_error("read from", place, error))
}

/// One request as long as it lasts. Whoever reads slowly may lose the connection, so it goes on with another one from where it
/// was, provided that something has come since and the file is the same.
pub struct Download {
    url: Url,
    access: Access,
    answer: BoxStream<'static, object_store::Result<Bytes>>,
    /// What has come and is not read.
    piece: Bytes,
    position: u64,
    begun_at: u64,
    size: u64,
    e_tag: Option<String>,
}

impl Download {
    fn begin(url: &Url, access: &Access) -> Result<Self> {
        let answer = access.wait(access.stores.get(url, GetOptions::default()))?;
        let (size, e_tag) = (answer.meta.size, strong(answer.meta.e_tag.clone()));
        let (url, access, answer) = (url.clone(), access.clone(), answer.into_stream());
        Ok(Self { url, access, answer, piece: Bytes::new(), position: 0, begun_at: 0, size, e_tag })
    }

    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        while self.piece.is_empty() {
            let next = self.access.wait(async { Ok(self.answer.next().await) })?;
            match next {
                Some(Ok(piece)) => {
                    self.position += piece.len() as u64;
                    self.piece = piece;
                }
                Some(Err(_))
                    if self.position > self.begun_at && self.position < self.size && self.e_tag.is_some() =>
                {
                    self.go_on()?;
                }
                Some(Err(error)) => return Err(failure::lost(&self.access.stores, &self.url, &error)),
                None if self.position < self.size => {
                    return Err(failure::cut(&self.access.stores, &self.url));
                }
                None => return Ok(0),
            }
        }
        let count = to.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut to[..count]);
        Ok(count)
    }

    fn go_on(&mut self) -> Result<()> {
        let options = GetOptions {
            range: Some(GetRange::Offset(self.position)),
            if_match: self.e_tag.clone(),
            ..GetOptions::default()
        };
        self.answer = self.access.wait(self.access.stores.get(&self.url, options))?.into_stream();
        self.begun_at = self.position;
        Ok(())
    }
}

/// The tag of a file's content, if equal tags mean equal bytes.
pub fn strong(e_tag: Option<String>) -> Option<String> {
    e_tag.filter(|tag| !tag.starts_with("W/"))
}
