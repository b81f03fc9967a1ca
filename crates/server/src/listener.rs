//! Connections of the server: closed when the peer does not read, or too slowly, or sends no request, and closed gently.

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

use crate::{
    options::{ConnectionLimits, slowest},
    places::Place,
};

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
    /// How long writes may be blocked at most, and how long from now on. What the peer takes adds to it as much as the
    /// slowest reader tolerated needs, and only blocked writes use it up: a stream may be idle.
    read_time: Duration,
    patience: Duration,
    /// Since when a write is blocked, and fires when that is too long.
    blocked: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Connection {
    /// A connection, with the time limits of its first request's head and of reading what it is sent.
    pub(crate) fn new(stream: TcpStream, place: Place, limits: ConnectionLimits) -> Connection {
        // Events are small and must not be delayed.
        let _ = stream.set_nodelay(true);
        let head = Some(Box::pin(sleep(limits.header_timeout)));
        let read_time = limits.read_timeout;
        Connection { stream: Some(stream), place: Some(place), head, read_time, patience: read_time, blocked: None }
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

    /// Turns a write that the peer reads too slowly into an error.
    fn watched(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(taken) = &polled {
            if let Some((since, _)) = self.blocked.take() {
                self.patience = self.patience.saturating_sub(since.elapsed());
            }
            let taken = taken.as_ref().map_or(0, |taken| *taken as u64);
            self.patience = self.read_time.min(self.patience.saturating_add(slowest(taken)));
            return polled;
        }
        self.may_continue(context)?;
        let patience = self.patience;
        let (_, over) = self.blocked.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(patience))));
        ready!(over.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read, or too slowly")))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::net::TcpSocket;

    use super::*;
    use crate::places::Places;

    /// Whether an answer is written within ten seconds to a client that reads so much ten times a second.
    async fn answered(bytes: usize, piece: usize) -> io::Result<()> {
        let listener = TcpSocket::new_v4()?;
        listener.set_send_buffer_size(4 * 1024)?;
        listener.bind(([127, 0, 0, 1], 0).into())?;
        let listener = listener.listen(1)?;
        let client = TcpSocket::new_v4()?;
        client.set_recv_buffer_size(4 * 1024)?;
        let mut client = client.connect(listener.local_addr()?).await?;
        let limits = ConnectionLimits {
            header_timeout: Duration::from_secs(60),
            // More than the kernel takes to tell of what was read.
            read_timeout: Duration::from_secs(2),
            ..ConnectionLimits::default()
        };
        let (stream, address) = listener.accept().await?;
        let place = Arc::new(Places::new(limits)).take(address.ip()).ok_or(io::ErrorKind::NotConnected)?;
        let mut connection = Connection::new(stream, place, limits);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; piece];
            while client.read_exact(&mut buffer).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let written = tokio::time::timeout(Duration::from_secs(10), connection.write_all(&vec![0; bytes])).await;
        reading.abort();
        written.unwrap_or_else(|_| Err(io::Error::other("it is written without end")))
    }

    /// Spec R9, X: some bytes now and then are no reason to keep an answer in memory for hours.
    #[tokio::test]
    async fn r9_x_an_answer_is_not_read_as_slowly_as_one_likes() {
        let (slow, fast) = tokio::join!(answered(4 << 20, 512), answered(1 << 20, 32 * 1024));
        let slow = slow.expect_err("it is given up");
        assert!(slow.to_string().contains("too slowly"), "{slow}");
        fast.expect("who reads is served");
    }
}
