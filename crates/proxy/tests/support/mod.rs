//! A proxy on one thread of this process, over a real driver.

#![allow(dead_code)] // Each test file uses some of it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_config::{Input, LoadOptions};
use thalweg_proxy::{Instance, ThreadSocket};
use thalweg_runtime::net::{LetGo, Port};
use thalweg_runtime::{Config, Handle, Runtime};

/// A proxy that runs until it is told to stop.
pub struct Running {
    /// Where its frontend `fe` listens, whatever its `bind` says.
    pub addr: SocketAddr,
    pub handle: Handle,
    thread: JoinHandle<()>,
}

/// Starts a configuration. The proxy's thread calls `begin` first.
pub fn start(text: &str, settings: Config, begin: fn()) -> Running {
    let input = Input::Memory { name: "test".into(), text: text.as_bytes().to_vec() };
    let loaded = thalweg_config::load(&LoadOptions { files: vec![input], cpus: 1, ..LoadOptions::default() });
    let said: Vec<&str> = loaded.diagnostics.iter().map(|d| &*d.message).collect();
    let mut config = loaded.config.unwrap_or_else(|| panic!("{said:#?}"));
    config.global.nbthread = 1;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    let fe = config.proxies.iter().find(|p| &*p.name == "fe").unwrap();
    let number = fe.binds[0].number as usize;
    let instance = Instance::new(config, "thalweg", "host", thalweg_runtime::clock::wall_us());
    let (ready, started) = mpsc::channel();
    let thread = thread::spawn(move || {
        let port = Arc::new(Port::new(listener.into(), LetGo::Keep));
        let sockets = Mutex::new(Some(vec![ThreadSocket { listener: number, port }]));
        let runtime = Runtime::start(Config { threads: 1, ..settings }, move |thread| {
            begin();
            thalweg_proxy::start_thread(&instance, thread, sockets.lock().unwrap().take().unwrap());
        })
        .unwrap();
        ready.send(runtime.handle()).unwrap();
        runtime.run().unwrap();
    });
    Running { addr, handle: started.recv().unwrap(), thread }
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
