package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"cadre.dev/exec/call"
)

// reap runs one command and ends when no process of it is left. Descriptors: the end of 0 means
// that the caller has gone, 1 and 2 are the command's output, 3 its reason, 4 takes the status. Where
// the command answers, 5 is its input and 6 its answer.
func reap(limit string, answers bool, argv []string) int {
	reply := run(limit, answers, argv)
	status := os.NewFile(statusFD, "status")
	if err := json.NewEncoder(status).Encode(reply); err != nil {
		return fail(exitFailed, err)
	}
	return 0
}

func run(limit string, answers bool, argv []string) call.Reply {
	span, err := time.ParseDuration(limit)
	if err == nil {
		err = becomeSubreaper()
	}
	if err == nil {
		// Another user's process could not be killed.
		err = renouncePrivileges()
	}
	if err != nil {
		return notStarted(err)
	}
	syscall.CloseOnExec(statusFD)
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return notStarted(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return notStarted(err)
	}
	files := []uintptr{null.Fd(), 1, 2, reasonFD}
	if answers {
		files[0] = inputFD
		files = append(files, answerFD)
		syscall.CloseOnExec(inputFD)
		syscall.CloseOnExec(answerFD)
	}
	unwanted := make(chan struct{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		close(unwanted)
	}()
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	surviveSignals()
	over := time.NewTimer(span)
	main, err := syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return notStarted(fmt.Errorf("start %s: %w", program, err))
	}
	if answers {
		// The server reads the answer to its end, which is the command's.
		_ = errors.Join(syscall.Close(inputFD), syscall.Close(answerFD))
	}
	return await(main, died, over.C, unwanted)
}

// await returns the exit of main, once no process of the command is left.
func await(main int, died <-chan os.Signal, over <-chan time.Time, unwanted <-chan struct{}) call.Reply {
	reply, ended := call.Reply{End: call.TimedOut}, false
	note := func(pid int, status syscall.WaitStatus) {
		if pid == main && !ended {
			reply, ended = ending(status), true
		}
	}
	for !ended {
		select {
		case <-died:
			reapEnded(note)
		case <-over:
			killAll(func(int, syscall.WaitStatus) {})
			return reply
		case <-unwanted:
			killAll(func(int, syscall.WaitStatus) {})
			return reply
		}
	}
	killAll(note)
	return reply
}

// reapEnded takes the status of every child that has ended.
func reapEnded(note func(pid int, status syscall.WaitStatus)) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return
		default:
			note(pid, status)
		}
	}
}

func ending(s syscall.WaitStatus) call.Reply {
	if s.Signaled() {
		return call.Reply{End: call.Signalled, Code: int(s.Signal())}
	}
	return call.Reply{End: call.Exited, Code: s.ExitStatus()}
}

func notStarted(err error) call.Reply {
	return call.Reply{End: call.NotStarted, Problem: err.Error()}
}
