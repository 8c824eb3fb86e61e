//! A proxy on threads of this process, over a real driver.

#![allow(dead_code)] // Each test file uses some of it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_config::{Input, LoadOptions};
use thalweg_proxy::{Instance, ThreadSocket};
use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};
use thalweg_runtime::net::{LetGo, Port};
use thalweg_runtime::{Config, Handle, Runtime};

/// A proxy that runs until it is told to stop.
pub struct Running {
    /// Where its frontend `fe` listens, whatever its `bind` says.
    pub addr: SocketAddr,
    /// The same, each thread's own.
    pub addrs: Vec<SocketAddr>,
    pub handle: Handle,
    pub instance: Arc<Instance>,
    thread: JoinHandle<()>,
}

/// Calls `f` for each I/O driver that this kernel allows, with its name and what asks for it.
pub fn each_driver(mut f: impl FnMut(&str, fn() -> DriverKind)) {
    #[allow(clippy::type_complexity)] // A table of cases.
    let drivers: [(&str, fn() -> DriverKind); 2] =
        [("epoll", || DriverKind::Epoll), ("io_uring", || DriverKind::Uring)];
    for (name, kind) in drivers {
        match Driver::new(kind(), &DriverOptions::default()) {
            Ok(driver) => {
                drop(driver);
                f(name, kind);
            }
            Err(error) => eprintln!("skipped with {name}, which this kernel does not allow: {error}"),
        }
    }
}

/// Starts a configuration on as many threads as `settings` say. Each calls `begin` first.
pub fn start(text: &str, settings: Config, begin: fn()) -> Running {
    let threads = settings.threads.max(1);
    let input = Input::Memory { name: "test".into(), text: text.as_bytes().to_vec() };
    let loaded = thalweg_config::load(&LoadOptions { files: vec![input], cpus: 1, ..LoadOptions::default() });
    let said: Vec<&str> = loaded.diagnostics.iter().map(|d| &*d.message).collect();
    let mut config = loaded.config.unwrap_or_else(|| panic!("{said:#?}"));
    config.global.nbthread = threads;
    let listeners: Vec<_> = (0..threads).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
    let addrs: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let fe = config.proxies.iter().find(|p| &*p.name == "fe").unwrap();
    let number = fe.binds[0].number as usize;
    let instance = Instance::new(config, "thalweg", "host", thalweg_runtime::clock::wall_us());
    let (ready, started) = mpsc::channel();
    let of_threads = Arc::clone(&instance);
    let thread = thread::spawn(move || {
        let port = |listener: TcpListener| Arc::new(Port::new(listener.into(), LetGo::Keep));
        let socket = |listener| Mutex::new(Some(ThreadSocket { listener: number, port: port(listener) }));
        let sockets: Vec<_> = listeners.into_iter().map(socket).collect();
        let runtime = Runtime::start(Config { threads, ..settings }, move |thread| {
            begin();
            let socket = sockets[thread].lock().unwrap().take();
            thalweg_proxy::start_thread(&of_threads, thread, socket.into_iter().collect());
        })
        .unwrap();
        ready.send(runtime.handle()).unwrap();
        runtime.run().unwrap();
    });
    Running { addr: addrs[0], addrs, handle: started.recv().unwrap(), instance, thread }
}

impl Running {
    /// Waits for the end that the proxy itself comes to.
    pub fn wait(self) {
        let begin = Instant::now();
        while !self.thread.is_finished() {
            assert!(begin.elapsed() < Duration::from_secs(20), "the proxy runs on");
            thread::sleep(Duration::from_millis(1));
        }
        self.thread.join().unwrap();
    }

    pub fn stop(self) {
        self.handle.stop();
        self.thread.join().unwrap();
    }
}

pub fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}
