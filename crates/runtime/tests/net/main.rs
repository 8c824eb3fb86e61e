//! What sockets do, on every real driver: the same tests run against io_uring and epoll.

mod datagrams;
mod descriptors;
mod drivers;
mod ends;
mod faults;
mod harness;
mod listeners;
mod relays;
mod spares;
mod streams;
