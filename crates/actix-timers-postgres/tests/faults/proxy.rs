//! A TCP proxy between a node and the server, whose connections can be cut and stalled, one way and both. It can refuse
//! further connections, and delay everything.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The state of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Data passes.
    Whole,
    /// Nothing passes to the server (`up`), or to the node (`down`). It is kept until the connection is whole again.
    Stalled { up: bool, down: bool },
    /// So many more bytes pass to the server on each connection, and nothing after them.
    Half { up: usize },
    /// Connections are closed, with all that was kept, and so are new ones.
    Cut,
}

/// The state that a connection must obey.
#[derive(Debug, Clone, Copy)]
struct Order {
    wire: Wire,
    /// The only connection concerned, or none for all.
    only: Option<u64>,
    /// The number of the order.
    number: u64,
    /// The number of the last order that cut all connections.
    last_cut: u64,
    /// One connection that was cut, and the number of the order.
    last_cut_of_one: (u64, u64),
    /// Whether no new connection is to be had.
    refuses: bool,
}

impl Order {
    /// Returns whether a connection that began at an order was cut since, even if connections are whole again.
    const fn has_cut(&self, connection: u64, began: u64) -> bool {
        self.last_cut > began || (self.last_cut_of_one.0 == connection && self.last_cut_of_one.1 > began)
    }
}

#[derive(Default)]
struct Connections {
    /// The numbers of the open ones, with their ports towards the server, once they have one.
    open: BTreeMap<u64, Option<u16>>,
    last: u64,
}

/// A proxy.
pub(crate) struct Proxy {
    port: u16,
    orders: watch::Sender<Order>,
    server: Arc<Mutex<SocketAddr>>,
    connections: Arc<Mutex<Connections>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Proxy {
    /// Starts a proxy in front of a server.
    pub(crate) fn start(runtime: &Handle, server: SocketAddr) -> Self {
        Self::start_far(runtime, server, [Duration::ZERO; 2])
    }

    /// Starts a proxy in front of a server that is so far away, there and back.
    pub(crate) fn start_far(runtime: &Handle, server: SocketAddr, ways: [Duration; 2]) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let order =
            Order { wire: Wire::Whole, only: None, number: 0, last_cut: 0, last_cut_of_one: (0, 0), refuses: false };
        let (orders, watched) = watch::channel(order);
        let server = Arc::new(Mutex::new(server));
        let connections = Arc::<Mutex<Connections>>::default();
        let task = runtime.spawn(accept(listener, Arc::clone(&server), watched, Arc::clone(&connections), ways));
        Self { port, orders, server, connections, task }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Sets the state of all connections.
    pub(crate) fn set(&self, wire: Wire) {
        self.order(wire, None);
    }

    /// Sets the state of one connection, chosen by any number. The others are whole.
    pub(crate) fn set_one(&self, wire: Wire, any: u64) {
        let connections = self.connections.lock().unwrap();
        let number = any as usize % connections.open.len().max(1);
        self.order(wire, connections.open.keys().nth(number).copied());
    }

    /// Cuts the connection that has this port towards the server, if there is one.
    pub(crate) fn cut_port(&self, port: u16) {
        let connections = self.connections.lock().unwrap();
        let of_port = connections.open.iter().find(|(_, of)| **of == Some(port));
        of_port.into_iter().for_each(|(number, _)| self.order(Wire::Cut, Some(*number)));
    }

    /// Returns the ports of the connections towards the server.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.connections.lock().unwrap().open.values().copied().flatten().collect()
    }

    /// Sets whether new connections are refused.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.orders.send_modify(|order| order.refuses = refuses);
    }

    fn order(&self, wire: Wire, only: Option<u64>) {
        self.orders.send_modify(|order| {
            (order.wire, order.only, order.number) = (wire, only, order.number + 1);
            match only {
                _ if wire != Wire::Cut => {}
                None => order.last_cut = order.number,
                Some(one) => order.last_cut_of_one = (one, order.number),
            }
        });
    }

    /// Sends new connections to another server.
    pub(crate) fn redirect(&self, server: SocketAddr) {
        *self.server.lock().unwrap() = server;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.set(Wire::Cut);
    }
}

async fn accept(
    listener: TcpListener,
    server: Arc<Mutex<SocketAddr>>,
    orders: watch::Receiver<Order>,
    connections: Arc<Mutex<Connections>>,
    ways: [Duration; 2],
) {
    while let Ok((node, _)) = listener.accept().await {
        let server = *server.lock().unwrap();
        let orders = orders.clone();
        if orders.borrow().refuses {
            continue;
        }
        // In the order of the connections, which their tasks need not have.
        let number = {
            let mut connections = connections.lock().unwrap();
            connections.last += 1;
            let number = connections.last;
            connections.open.insert(number, None);
            number
        };
        let connections = Arc::clone(&connections);
        tokio::spawn(async move {
            let has_port = |port| {
                connections.lock().unwrap().open.insert(number, Some(port));
            };
            let _ = connect(node, server, orders, number, ways, has_port).await;
            connections.lock().unwrap().open.remove(&number);
        });
    }
}

async fn connect(
    node: TcpStream,
    server: SocketAddr,
    orders: watch::Receiver<Order>,
    number: u64,
    [there, back]: [Duration; 2],
    has_port: impl FnOnce(u16),
) -> std::io::Result<()> {
    let began = orders.borrow().number;
    if state(&orders.borrow(), number) == Wire::Cut {
        return Ok(());
    }
    let server = TcpStream::connect(server).await?;
    has_port(server.local_addr()?.port());
    for stream in [&node, &server] {
        stream.set_nodelay(true)?;
    }
    let (from_node, to_node) = node.into_split();
    let (from_server, to_server) = server.into_split();
    let (from_node, from_server) = (delayed(from_node, there), delayed(from_server, back));
    let mut cut = orders.clone();
    // The end of either direction closes both.
    tokio::select! {
        ended = pump(from_node, to_server, orders.clone(), (number, began), Direction::Up) => ended,
        ended = pump(from_server, to_node, orders, (number, began), Direction::Down) => ended,
        _ = cut.wait_for(|order| order.has_cut(number, began)) => Ok(()),
    }
}

/// Returns what arrives, so much later.
fn delayed(mut from: impl AsyncRead + Unpin + Send + 'static, way: Duration) -> Box<dyn AsyncRead + Unpin + Send> {
    if way.is_zero() {
        return Box::new(from);
    }
    let (far, near) = tokio::io::duplex(64 << 10);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let arrive = async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(size @ 1..) = from.read(&mut buffer).await {
            if sender.send((Instant::now() + way, buffer[..size].to_vec())).is_err() {
                return;
            }
        }
    };
    let pass = async move {
        let (_, mut to) = tokio::io::split(far);
        while let Some((at, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    // They end together with the connection.
    tokio::spawn(async move {
        tokio::select! {
            _ = pass => {}
            () = async { arrive.await; std::future::pending().await } => {}
        }
    });
    Box::new(near)
}

fn state(order: &Order, number: u64) -> Wire {
    if order.only.is_none_or(|only| only == number) { order.wire } else { Wire::Whole }
}

/// Copies one direction of a connection.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut orders: watch::Receiver<Order>,
    (number, began): (u64, u64),
    direction: Direction,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let (mut last_order, mut passed) = (0, 0);
    loop {
        let size = from.read(&mut buffer).await?;
        if size == 0 {
            return Ok(());
        }
        let mut sent = 0;
        while sent < size {
            let order = *orders.borrow_and_update();
            if order.has_cut(number, began) {
                return Ok(());
            }
            if order.number != last_order {
                (last_order, passed) = (order.number, 0);
            }
            let may_pass = match (state(&order, number), direction) {
                (Wire::Whole, _) | (Wire::Half { .. }, Direction::Down) => size - sent,
                (Wire::Half { up }, Direction::Up) => (size - sent).min(up.saturating_sub(passed)),
                (Wire::Stalled { up, .. }, Direction::Up) if !up => size - sent,
                (Wire::Stalled { down, .. }, Direction::Down) if !down => size - sent,
                (Wire::Stalled { .. } | Wire::Cut, _) => 0,
            };
            if may_pass == 0 {
                if orders.changed().await.is_err() {
                    return Ok(());
                }
                continue;
            }
            to.write_all(&buffer[sent..sent + may_pass]).await?;
            sent += may_pass;
            passed += may_pass;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends everything back.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn hears(stream: &mut TcpStream, text: &str) -> bool {
        let mut heard = vec![0; text.len()];
        let read = tokio::time::timeout(Duration::from_millis(200), stream.read_exact(&mut heard)).await;
        matches!(read, Ok(Ok(_))) && heard == text.as_bytes()
    }

    async fn is_ended(stream: &mut TcpStream) -> bool {
        stream.read(&mut [0; 8]).await.unwrap_or(0) == 0
    }

    #[test]
    fn a_proxy_delays_stalls_cuts_and_refuses() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(echo());
        let proxy = Proxy::start_far(runtime.handle(), server, [Duration::from_millis(30); 2]);
        runtime.block_on(async {
            let connect = || TcpStream::connect(("127.0.0.1", proxy.port()));
            let (mut one, mut two) = (connect().await.unwrap(), connect().await.unwrap());
            for node in [&mut one, &mut two] {
                let began = Instant::now();
                node.write_all(b"one").await.unwrap();
                assert!(hears(node, "one").await && began.elapsed() >= Duration::from_millis(60));
            }
            let ports = proxy.ports();
            assert_eq!(ports.len(), 2);
            proxy.refuse(true);
            proxy.cut_port(ports[0]);
            assert!(is_ended(&mut one).await && is_ended(&mut connect().await.unwrap()).await);
            proxy.refuse(false);
            for (up, down) in [(true, false), (false, true), (true, true)] {
                proxy.set(Wire::Stalled { up, down });
                two.write_all(b"two").await.unwrap();
                assert!(!hears(&mut two, "two").await);
                proxy.set(Wire::Whole);
                assert!(hears(&mut two, "two").await);
            }
            proxy.set(Wire::Half { up: 2 });
            two.write_all(b"three").await.unwrap();
            assert!(hears(&mut two, "th").await && !hears(&mut two, "ree").await);
            proxy.set(Wire::Whole);
            assert!(hears(&mut two, "ree").await);
            // Held bytes are lost, although connections are whole again at once.
            proxy.set(Wire::Stalled { up: false, down: true });
            two.write_all(b"four").await.unwrap();
            assert!(!hears(&mut two, "four").await);
            proxy.set(Wire::Cut);
            proxy.set(Wire::Whole);
            assert!(is_ended(&mut two).await);
            two = connect().await.unwrap();
            two.write_all(b"five").await.unwrap();
            assert!(hears(&mut two, "five").await);
            proxy.set(Wire::Cut);
            assert!(is_ended(&mut two).await && is_ended(&mut connect().await.unwrap()).await);
        });
    }
}
