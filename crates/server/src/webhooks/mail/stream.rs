//! The connection to a mail server. Until TLS begins, anything on the way may answer in its place.

#![expect(
    deprecated,
    reason = "lettre deprecates its stream types as public by mistake; wrapping one is the only way to bound what is read"
)]

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use futures::io::{AsyncRead as _, AsyncWrite as _};
use lettre::transport::smtp::{
    Error,
    client::{AsyncNetworkStream, AsyncTokioStream, TlsParameters},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::webhooks::send::TIME_LIMIT;

/// The most that a mail server may send over a connection: many times what the answers for all recipients take.
const MOST_BYTES: usize = 512 * 1024;
/// How much is read from the network at a time.
const PIECE: usize = 4 * 1024;
/// How much of a line is kept for errors, in bytes.
const LINE_BYTES: usize = 1024;

/// A connection that fails once it has received too much, and that is read a line at a time: bytes after a line stay
/// here. So bytes that somebody adds after the answer to STARTTLS never pass for an answer that came over TLS; they are
/// read as TLS, which fails.
#[derive(Debug)]
pub(super) struct Bounded {
    inner: AsyncNetworkStream,
    /// Received, and not read yet.
    unread: VecDeque<u8>,
    /// How much more may be received.
    left: usize,
    heard: Heard,
}

/// The last line that a mail server has sent, for errors.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(Arc<Mutex<Line>>);

#[derive(Debug, Default)]
struct Line {
    whole: Option<String>,
    begun: Vec<u8>,
}

impl Heard {
    /// As much of it as errors show; `None`: it has said nothing.
    pub(super) fn last(&self) -> Option<String> {
        self.line().whole.clone()
    }

    /// Drops what the server sent without TLS: it must not appear in later errors.
    pub(super) fn forget(&self) {
        *self.line() = Line::default();
    }

    fn take(&self, bytes: &[u8]) {
        let mut line = self.line();
        for byte in bytes {
            match byte {
                b'\n' => {
                    let begun = std::mem::take(&mut line.begun);
                    let text = String::from_utf8_lossy(&begun).trim().to_owned();
                    // Once TLS has begun on an open connection, these bytes are not its lines.
                    if text.len() >= 3 && text.bytes().take(3).all(|byte| byte.is_ascii_digit()) {
                        line.whole = Some(text);
                    }
                }
                byte if line.begun.len() < LINE_BYTES => line.begun.push(*byte),
                _ => {}
            }
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bounded {
    /// With TLS from the beginning, if there are parameters for it.
    pub(super) async fn connect(at: &[SocketAddr], tls: Option<TlsParameters>, heard: Heard) -> Result<Bounded, Error> {
        let inner = AsyncNetworkStream::connect_tokio1(at, Some(TIME_LIMIT), tls, None).await?;
        Ok(Bounded { inner, unread: VecDeque::new(), left: MOST_BYTES, heard })
    }
}

impl AsyncRead for Bounded {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.unread.is_empty() {
            let mut piece = [0; PIECE];
            let n = ready!(Pin::new(&mut this.inner).poll_read(cx, &mut piece))?;
            let too_much = || io::Error::other(format!("the mail server sent more than {} KiB", MOST_BYTES / 1024));
            this.left = this.left.checked_sub(n).ok_or_else(too_much)?;
            this.unread.extend(&piece[..n]);
        }
        let line = this.unread.iter().position(|byte| *byte == b'\n').map_or(this.unread.len(), |end| end + 1);
        let read: Vec<u8> = this.unread.drain(..line.min(to.remaining())).collect();
        this.heard.take(&read);
        to.put_slice(&read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_close(cx)
    }
}

impl AsyncTokioStream for Bounded {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.inner.peer_addr()
    }
}
