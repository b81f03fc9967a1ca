//! Connections of the server: closed when the peer does not read or sends no request, and closed gently.

use std::{
    future::{Future as _, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

use crate::{options::WRITE_STALL_SECONDS, places::Place};

/// How long, and how much, a closing connection is still read, so that the peer can read the answer to what it is
/// still sending. Closing with unread input would reset the connection.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 64 * 1024 * 1024;

/// One connection.
pub(crate) struct Connection {
    /// Taken only on drop, as is the place.
    stream: Option<TcpStream>,
    place: Option<Place>,
    /// Fires unless the first request's head arrives in time.
    head: Option<Pin<Box<Sleep>>>,
    /// Fires while a write makes no progress.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// A connection whose first request head must arrive within this time.
    pub(crate) fn new(stream: TcpStream, place: Place, header_time: Duration) -> Connection {
        // Events are small and must not be delayed.
        let _ = stream.set_nodelay(true);
        Connection { stream: Some(stream), place: Some(place), head: Some(Box::pin(sleep(header_time))), stalled: None }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Whether the connection may keep waiting: it has its place, and time left for its first request.
    fn may_continue(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        if place.must_go(context) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "it has lost its place"));
        }
        if place.has_begun() {
            self.head = None;
        }
        if let Some(head) = &mut self.head
            && head.as_mut().poll(context).is_ready()
        {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no request came"));
        }
        Ok(())
    }

    /// Turns a write that makes no progress for too long into an error.
    fn watched<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        self.may_continue(context)?;
        let limit = Duration::from_secs(WRITE_STALL_SECONDS);
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = this.stream()?.poll_read(context, buffer);
        if polled.is_pending() {
            this.may_continue(context)?;
        } else if let Some(place) = &this.place {
            place.receives(buffer.filled().len() - before);
            // It may have been this one that was closed.
            this.may_continue(context)?;
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = this.stream()?.poll_write(context, bytes);
        this.watched(context, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = this.stream()?.poll_write_vectored(context, bytes);
        this.watched(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_shutdown(context)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A connection without a request has no answer to read, and one closed to make room is closed at once.
        let place = self.place.take().filter(|place| place.has_begun() && !place.is_gone());
        if let (Some(mut stream), Some(place), Ok(runtime)) =
            (self.stream.take(), place, tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move {
                let linger = async {
                    stream.shutdown().await?;
                    tokio::io::copy(&mut (&mut stream).take(LINGER_BYTES), &mut tokio::io::sink()).await
                };
                let wanted = poll_fn(|context| if place.must_go(context) { Poll::Ready(()) } else { Poll::Pending });
                tokio::select! {
                    _ = tokio::time::timeout(LINGER, linger) => {}
                    () = wanted => {}
                }
            });
        }
    }
}
