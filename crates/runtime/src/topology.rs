//! CPUs: which there are, and which a thread may use.

use std::io;

/// The most CPUs a set can name.
pub const CPUS_MAX: usize = 1024;

/// A set of CPUs (`cpu-map`).
#[derive(Clone, PartialEq, Eq)]
pub struct CpuSet([u64; CPUS_MAX / 64]);

impl Default for CpuSet {
    fn default() -> Self {
        CpuSet([0; CPUS_MAX / 64])
    }
}

impl CpuSet {
    /// The empty set.
    pub fn new() -> CpuSet {
        CpuSet::default()
    }

    /// Adds a CPU. False when its number is too high.
    pub fn add(&mut self, cpu: usize) -> bool {
        match self.0.get_mut(cpu / 64) {
            Some(word) => {
                *word |= 1 << (cpu % 64);
                true
            }
            None => false,
        }
    }

    /// Whether it has a CPU.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word & 1 << (cpu % 64) != 0)
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CPUS_MAX).filter(|&cpu| self.contains(cpu))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.add(cpu);
        }
        set
    }
}

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Binds the calling thread to `cpus`.
///
/// # Errors
/// When none of them is available to the process.
pub fn pin_current_thread(cpus: &CpuSet) -> io::Result<()> {
    // SAFETY: the pointer and the size describe the set; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&cpus.0), cpus.0.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The CPUs the calling thread may use.
///
/// # Errors
/// When the kernel knows more CPUs than [`CPUS_MAX`].
pub fn current_cpus() -> io::Result<CpuSet> {
    cpus_of(0)
}

/// Has the calling thread run wherever the process may, and in nobody's way. A thread that a worker begins would stay on the CPU that
/// the worker is bound to (`cpu-map`), in the way of it, while others are free; the first thread of the process is bound to none. And
/// one with the worker's priority of real time (`chrt`, `CPUSchedulingPolicy=` of a unit) would have it wait until all is done.
pub fn roam() {
    let first = std::process::id() as libc::pid_t;
    // A thread that stays bound does as well.
    let _ = cpus_of(first).and_then(|all| pin_current_thread(&all));
    if is_real_time() {
        let none = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and `none` outlives the call. If it is refused, the thread does its work all the same.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const none) };
    }
}

/// Whether the calling thread has a priority of real time.
fn is_real_time() -> bool {
    // SAFETY: 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// The CPUs that a thread may use; 0 is the calling one.
fn cpus_of(thread: libc::pid_t) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    // SAFETY: the pointer and the size describe the set.
    match unsafe { libc::sched_getaffinity(thread, size_of_val(&set.0), set.0.as_mut_ptr().cast()) } {
        0 => Ok(set),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let mut set: CpuSet = [0, 63, 64, 1023].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 1023]);
        assert!(!set.add(1024) && !set.contains(5000) && set.contains(63));
        assert_eq!((set.len(), set.is_empty(), CpuSet::new().is_empty()), (4, false, true));
    }

    #[test]
    fn a_thread_that_roams_has_no_priority_of_real_time() {
        let roamed = std::thread::spawn(|| {
            let least = libc::sched_param { sched_priority: 1 };
            // SAFETY: 0 is the calling thread, and `least` outlives the call.
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const least) } == -1 {
                eprintln!("skipped: nobody may have such a priority here");
                return (true, false);
            }
            let before = is_real_time();
            roam();
            (before, is_real_time())
        });
        assert_eq!(roamed.join().unwrap(), (true, false));
    }

    #[test]
    fn a_thread_can_be_bound() {
        std::thread::spawn(|| {
            let mine = current_cpus().unwrap();
            let one: CpuSet = mine.iter().take(1).collect();
            pin_current_thread(&one).unwrap();
            assert_eq!(current_cpus().unwrap(), one);
            assert!(pin_current_thread(&CpuSet::new()).is_err());
        })
        .join()
        .unwrap();
    }
}
