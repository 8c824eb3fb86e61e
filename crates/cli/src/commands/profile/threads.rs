//! `show threads`: what each thread does now.

use std::io;

use thalweg_runtime::clock;
use thalweg_runtime::profile::{self, ThreadAnswer, ThreadState};

use crate::command::Call;
use crate::json::Object;
use crate::output::Reply;

pub async fn show(call: Call<'_>) -> io::Result<Reply> {
    let (states, now_us) = (profile::thread_states().await, clock::now_us());
    Ok(Reply::Text(if call.wants_json() { json(&states, now_us) } else { text(&states, now_us) }))
}

/// A block for each thread, in the layout of the reference; `*` marks the one that is asked, `>` one that does not answer.
fn text(states: &[ThreadState], now_us: u64) -> String {
    let mut out = String::new();
    for (number, state) in (1..).zip(states) {
        let ThreadState { loops, runs, answer } = state;
        match answer {
            Some(answer) => out.push_str(&block(number, state, answer, now_us)),
            None => out.push_str(&format!(
                "> Thread {number:<2}: does not answer\n      1/{number:<4} loops={loops} ctxsw={runs} stuck=1\n"
            )),
        }
    }
    out
}

fn block(number: usize, state: &ThreadState, answer: &ThreadAnswer, now_us: u64) -> String {
    let [urgent, normal, bulk, heavy] = answer.queued;
    let ThreadAnswer { id, is_here, tasks, timers, cpu_ns, .. } = answer;
    let mark = if *is_here { '*' } else { ' ' };
    // Of the reference's queues, those that only this thread may take from.
    let (own, queued) = (urgent + bulk + heavy, urgent + normal + bulk + heavy);
    let some = |n: usize| u8::from(n > 0);
    format!(
        "{mark} Thread {number:<2}: id={id:#x} act={} glob=0 wq={} rq={} tl={} tlsz={own} rqsz={queued}\n\
         \x20     1/{number:<4} loops={} ctxsw={} stuck=0 prof={} harmless={} isolated=0 locks=0\n\
         \x20            cpu_ns: now={cpu_ns} since_poll_us={}\n\
         \x20            tasks={tasks} timers={timers} urgent={urgent} normal={normal} bulk={bulk} heavy={heavy}\n",
        some(queued),
        some(*timers),
        some(queued),
        some(own),
        state.loops,
        state.runs,
        u8::from(answer.profiling),
        u8::from(!is_here),
        now_us.saturating_sub(answer.polled_us),
    )
}

/// An object for each thread.
fn json(states: &[ThreadState], now_us: u64) -> String {
    let mut out = String::new();
    for (number, state) in (1..).zip(states) {
        let mut object = Object::default();
        object
            .number("thread", Some(number))
            .text("state", if state.answer.is_some() { "answers" } else { "stuck" })
            .numbers([("loops", state.loops), ("ctxsw", state.runs)]);
        if let Some(answer) = &state.answer {
            object.text("id", &format!("{:#x}", answer.id));
            let [urgent, normal, bulk, heavy] = answer.queued.map(|tasks| tasks as u64);
            object.numbers([
                ("prof", u64::from(answer.profiling)),
                ("cpu_ns_now", answer.cpu_ns),
                ("since_poll_us", now_us.saturating_sub(answer.polled_us)),
                ("tasks", u64::from(answer.tasks)),
                ("timers", answer.timers as u64),
                ("urgent", urgent),
                ("normal", normal),
                ("bulk", bulk),
                ("heavy", heavy),
            ]);
        }
        object.end(&mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_objects_say_the_same() {
        let answer = ThreadAnswer {
            id: 0x7f,
            is_here: true,
            queued: [1, 2, 3, 4],
            tasks: 20,
            timers: 5,
            profiling: false,
            cpu_ns: 45,
            polled_us: 98,
        };
        let states = [
            ThreadState { loops: 14, runs: 30, answer: Some(answer) },
            ThreadState { loops: 1, runs: 2, answer: None },
        ];
        assert_eq!(
            text(&states, 100),
            "* Thread 1 : id=0x7f act=1 glob=0 wq=1 rq=1 tl=1 tlsz=8 rqsz=10\n\
             \x20     1/1    loops=14 ctxsw=30 stuck=0 prof=0 harmless=0 isolated=0 locks=0\n\
             \x20            cpu_ns: now=45 since_poll_us=2\n\
             \x20            tasks=20 timers=5 urgent=1 normal=2 bulk=3 heavy=4\n\
             > Thread 2 : does not answer\n      1/2    loops=1 ctxsw=2 stuck=1\n"
        );
        assert_eq!(
            json(&states, 100),
            "{\"thread\":1,\"state\":\"answers\",\"loops\":14,\"ctxsw\":30,\"id\":\"0x7f\",\"prof\":0,\"cpu_ns_now\":45,\
             \"since_poll_us\":2,\"tasks\":20,\"timers\":5,\"urgent\":1,\"normal\":2,\"bulk\":3,\"heavy\":4}\n\
             {\"thread\":2,\"state\":\"stuck\",\"loops\":1,\"ctxsw\":2}\n"
        );
    }
}
