//! The agent alone: its tasks, its end, and input that is no message.

use std::io::{BufReader, PipeReader, PipeWriter, Write, pipe};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::*;
use crate::protocol::{LINE_WINDOW, MAX_MESSAGE, Peer, ProbeRequest, write};

/// Time without messages after which no test's agent ends.
const LONG: Duration = Duration::from_secs(600);

/// Agent in a thread, and its launcher's ends of the pipes.
struct TestAgent {
    requests: Option<PipeWriter>,
    answers: BufReader<PipeReader>,
    thread: JoinHandle<Result<()>>,
}

impl TestAgent {
    fn start(silence: Duration) -> TestAgent {
        let (input, requests) = pipe().unwrap();
        let (answers, output) = pipe().unwrap();
        let thread = std::thread::spawn(move || serve(input, output, &mut || 0, silence));
        TestAgent {
            requests: Some(requests),
            answers: BufReader::new(answers),
            thread,
        }
    }

    fn send(&mut self, request: Request) {
        write(self.requests.as_mut().unwrap(), &request).unwrap();
    }

    /// Starts a shell script.
    fn run(&mut self, task: usize, script: &str) {
        let start = StartTask {
            program: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            ..StartTask::default()
        };
        let start = Box::new(start);
        self.send(Request::Start { task, start });
    }

    fn answer(&mut self) -> Answer {
        let line = read_line(&mut self.answers).unwrap();
        parse(&line.expect("the agent has ended")).unwrap()
    }

    /// Next line of a task.
    fn line(&mut self) -> String {
        match self.answer() {
            Answer::Line { line, .. } => line,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the input, and returns the agent's result.
    fn end(mut self) -> Result<()> {
        self.requests = None;
        self.thread.join().unwrap()
    }
}

fn runs(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
    // A zombie does not run.
    status.is_ok_and(|s| !s.contains(") Z "))
}

#[track_caller]
fn ends(process: &str) {
    let began = Instant::now();
    while runs(process) {
        assert!(began.elapsed() < Duration::from_secs(30), "{process} runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Script that ignores SIGTERM and tells its process, and that of a child.
const DEAF: &str = "trap '' TERM; sleep 300 & echo $$ $!; while :; do sleep 0.05; done";

#[test]
fn a_task_has_its_lines_its_environment_and_its_exit_code() {
    let mut agent = TestAgent::start(LONG);
    let start = StartTask {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), "echo $A; pwd >&2; exit 3".to_owned()],
        folder: "/".to_owned(),
        env: vec![("A".to_owned(), "it's b".to_owned())],
        cores: vec![],
    };
    let start = Box::new(start);
    agent.send(Request::Start { task: 7, start });
    let mut lines = Vec::new();
    let mut code = None;
    while lines.len() < 2 || code.is_none() {
        match agent.answer() {
            Answer::Line {
                task: 7,
                line,
                error,
            } => lines.push((error, line)),
            Answer::Ended {
                task: 7,
                code: ended,
            } => code = Some(ended),
            other => panic!("{other:?}"),
        }
    }
    lines.sort();
    assert_eq!(
        lines,
        [(false, "it's b".to_owned()), (true, "/".to_owned())]
    );
    assert_eq!(code, Some(3));
    agent.end().unwrap();
}

#[test]
fn a_program_that_cannot_be_started_is_told() {
    let mut agent = TestAgent::start(LONG);
    let start = StartTask {
        program: "/no/such/program".to_owned(),
        ..StartTask::default()
    };
    let start = Box::new(start);
    agent.send(Request::Start { task: 0, start });
    let answer = agent.answer();
    let told = matches!(&answer, Answer::NotStarted { task: 0, reason } if reason.contains("/no/such/program"));
    assert!(told, "{answer:?}");
    agent.end().unwrap();
}

#[test]
fn tasks_and_their_children_are_killed_at_the_end_of_the_input() {
    let mut agent = TestAgent::start(LONG);
    agent.run(0, DEAF);
    let line = agent.line();
    agent.end().unwrap();
    line.split(' ').for_each(ends);
}

#[test]
fn tasks_are_killed_after_a_silence() {
    let mut agent = TestAgent::start(Duration::from_millis(300));
    agent.run(0, DEAF);
    let line = agent.line();
    let error = agent.thread.join().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("nothing was heard of the launcher"),
        "{error}"
    );
    line.split(' ').for_each(ends);
}

#[test]
fn a_task_is_terminated_and_killed_on_request() {
    let mut agent = TestAgent::start(LONG);
    agent.run(
        0,
        "exec 2> /dev/null; trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done",
    );
    agent.line();
    agent.send(Request::Terminate { task: 0 });
    assert_eq!(agent.answer(), Answer::Ended { task: 0, code: 5 });
    agent.run(1, DEAF);
    agent.line();
    agent.send(Request::Kill { task: 1 });
    assert_eq!(agent.answer(), Answer::Ended { task: 1, code: 137 });
    // Tasks that there are not, or not any more, are left alone.
    agent.send(Request::Kill { task: 1 });
    agent.send(Request::Terminate { task: 9 });
    agent.send(Request::Alive);
    assert_eq!(agent.answer(), Answer::Alive);
    agent.end().unwrap();
}

#[test]
fn input_that_is_no_message_ends_the_agent_and_its_tasks() {
    for wrong in [
        "no message\n",
        "{\"request\":\"dance\"}\n",
        "\u{0}\n",
        "[]\n",
        "{}\n",
    ] {
        let mut agent = TestAgent::start(LONG);
        agent.run(0, DEAF);
        let line = agent.line();
        let requests = agent.requests.as_mut().unwrap();
        requests.write_all(wrong.as_bytes()).unwrap();
        let failed = agent.answer();
        let told = matches!(&failed, Answer::Failed { reason } if reason.contains("is no message"));
        assert!(told, "{failed:?}");
        line.split(' ').for_each(ends);
        assert!(agent.end().is_err());
    }
}

#[test]
fn a_line_of_a_gibibyte_ends_the_agent_before_it_is_read() {
    let mut agent = TestAgent::start(LONG);
    let requests = agent.requests.as_mut().unwrap();
    let part = vec![b'x'; 1 << 20];
    let written = (0..1024).take_while(|_| requests.write_all(&part).is_ok());
    let written = written.count();
    assert!(
        written <= (MAX_MESSAGE >> 20) + 1,
        "{written} MiB were read"
    );
    assert!(agent.end().unwrap_err().to_string().contains("more than"));
}

#[test]
fn a_launcher_of_another_version_is_refused() {
    let mut agent = TestAgent::start(LONG);
    agent.send(Request::Hello {
        protocol: PROTOCOL,
        version: "0.0.0".to_owned(),
    });
    let failed = agent.answer();
    let told = matches!(&failed, Answer::Failed { reason } if reason.contains("one version"));
    assert!(told, "{failed:?}");
    assert!(agent.end().is_err());
}

#[test]
fn lines_that_nobody_takes_hold_up_the_task_and_not_the_agent() {
    let mut agent = TestAgent::start(LONG);
    agent.run(
        0,
        "while :; do echo 0123456789012345678901234567890123456789; done",
    );
    // The window is used up, and no line comes any more.
    let mut bytes = 0;
    while bytes + 104 <= LINE_WINDOW {
        bytes += window_bytes(&agent.line());
    }
    agent.send(Request::Probe(ProbeRequest::default()));
    let answer = agent.answer();
    assert!(matches!(answer, Answer::Probe(_)), "{answer:?}");
    agent.send(Request::Taken { bytes: 104 });
    agent.line();
    agent.send(Request::Kill { task: 0 });
    let answer = agent.answer();
    assert_eq!(answer, Answer::Ended { task: 0, code: 137 });
    agent.end().unwrap();
}

#[test]
fn all_lines_come_before_the_agent_finishes() {
    let mut agent = TestAgent::start(LONG);
    agent.run(0, "seq 1000");
    agent.send(Request::Finish);
    let mut lines = 0;
    while let Some(line) = read_line(&mut agent.answers).unwrap() {
        lines += usize::from(matches!(parse(&line).unwrap(), Answer::Line { .. }));
    }
    assert_eq!(lines, 1000);
    assert!(agent.thread.join().unwrap().is_ok());
}

#[test]
fn a_socket_is_reached_until_it_is_closed() {
    let mut agent = TestAgent::start(LONG);
    let nonce = "the nonce".to_owned();
    agent.send(Request::Listen {
        address: "127.0.0.1".to_owned(),
        port: 0,
        nonce: nonce.clone(),
    });
    let Answer::Listening { port: Ok(port) } = agent.answer() else {
        panic!("there is no socket");
    };
    let address = "127.0.0.1".to_owned();
    let to = vec![Peer {
        address,
        port,
        nonce,
    }];
    for is_open in [true, false] {
        agent.send(Request::Connect {
            to: to.clone(),
            seconds: 10,
        });
        let Answer::Connected { errors } = agent.answer() else {
            panic!("there is no answer");
        };
        assert_eq!(errors[0].is_none(), is_open, "{errors:?}");
        agent.send(Request::CloseSocket);
        assert_eq!(agent.answer(), Answer::SocketClosed);
    }
    agent.end().unwrap();
}

#[test]
fn two_tasks_of_one_number_are_refused() {
    let mut agent = TestAgent::start(LONG);
    agent.run(0, "sleep 300");
    agent.run(0, "sleep 300");
    let failed = agent.answer();
    assert!(matches!(failed, Answer::Failed { .. }), "{failed:?}");
    assert!(agent.end().is_err());
}
