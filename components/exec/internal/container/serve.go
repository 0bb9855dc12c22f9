package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"cadre.dev/exec/call"
)

const (
	// maxCommands run at once; a group has at most 16 checks, and hooks run one by one.
	maxCommands = 32
	// receiveLimit bounds how long a caller may take to send its request.
	receiveLimit = 5 * time.Second
	// drainLimit bounds the wait for a command's output once no process of it is left: only a
	// process outside, which received its descriptor, can hold the other end.
	drainLimit = time.Second
)

// server runs commands for the agent.
type server struct {
	agent int
	slots chan struct{}
	init  *initLink

	// mu is held while a reaper is started, so that reapAll does not take it for a stray.
	mu      sync.Mutex
	env     *meshEnv                        // guarded by mu; the initial environment of commands
	reapers map[int]chan syscall.WaitStatus // guarded by mu; by pid
}

// serve takes commands in dir until standard input ends.
func serve(dir, agentUID string, env *meshEnv) int {
	agent, err := strconv.Atoi(agentUID)
	if err == nil {
		err = becomeSubreaper()
	}
	if err != nil {
		return fail(exitFailed, err)
	}
	listener, err := listen(filepath.Join(dir, call.SocketName))
	if err != nil {
		return fail(exitFailed, fmt.Errorf("take commands: %w; the folder must be a tmpfs volume of the service and the agent alone", err))
	}
	surviveSignals()
	s := &server{agent: agent, slots: make(chan struct{}, maxCommands), init: newInitLink(os.Stdin), env: env, reapers: map[int]chan syscall.WaitStatus{}}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go s.reapAll(died)
	go func() {
		s.init.hear()
		_ = listener.Close() // init is gone, or will be; the reapers see our end as we do its
	}()
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return 0
		}
		go s.answer(conn)
	}
}

// listen makes the socket, for its owner alone from the start.
func listen(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err // of an earlier start of this container
	}
	// Nothing else runs in this process yet.
	umask := syscall.Umask(0o177)
	defer syscall.Umask(umask)
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

func (s *server) answer(conn *net.UnixConn) {
	defer conn.Close() //nolint:errcheck // answered, or not worth an answer
	if err := fromAgent(conn, s.agent); err != nil {
		_ = fail(0, err)
		return
	}
	var reply call.Reply
	select {
	case s.slots <- struct{}{}:
		reply = s.carryOut(conn)
		<-s.slots
	default:
		reply = notStarted(fmt.Errorf("%d commands run already", maxCommands))
	}
	_ = conn.SetWriteDeadline(time.Now().Add(receiveLimit))
	_ = call.WriteReply(conn, reply) // a caller that is gone needs none
}

// fromAgent rejects any other user than the agent's that opened the socket.
func fromAgent(conn *net.UnixConn, agent int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var who *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		who, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return errors.Join(err, credErr)
	}
	if int(who.Uid) != agent {
		return fmt.Errorf("a caller with user id %d is rejected: calls come from the agent", who.Uid)
	}
	return nil
}

// carryOut runs the command that conn asks for, until conn ends.
func (s *server) carryOut(conn *net.UnixConn) call.Reply {
	_ = conn.SetReadDeadline(time.Now().Add(receiveLimit))
	req, err := call.ReadRequest(conn)
	if err != nil {
		return notStarted(err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	if req.Restart {
		return s.restart(req.Time)
	}
	p, err := newPipes(req.Answer)
	if err != nil {
		return notStarted(err)
	}
	defer p.close()
	ended, err := s.start(req, p)
	if err != nil {
		return notStarted(err)
	}
	go func() {
		// The caller sends no more bytes: a read returns only at its end.
		_, _ = conn.Read(make([]byte, 1))
		_ = p.control.w.Close()
	}()
	output, dropped := outputOf(req, p.output.r, conn)
	reason, status := keep(p.reason.r, 4*call.ReasonLimit), keep(p.status.r, 4096)
	answer := answerOf(req, p)
	code := <-ended
	p.drain()
	reply := call.Reply{End: call.Signalled, Code: int(syscall.SIGKILL)}
	if code.Exited() {
		if err := json.Unmarshal(<-status, &reply); err != nil {
			reply = notStarted(fmt.Errorf("its exit status is not known: %w", err))
		}
	}
	reply.Output, reply.Reason = <-output, call.CleanReason(string(<-reason))
	if answer != nil {
		reply.Answer = <-answer
	}
	reply.Dropped = *dropped
	return reply
}

// answerOf gives the command its input and reads its answer; nil: the command gives none.
func answerOf(req call.Request, p *pipes) <-chan []byte {
	if !req.Answer {
		return nil
	}
	go func() {
		_, _ = p.input.w.Write(req.Input) // a command need not read it
		_ = p.input.w.Close()
	}()
	return keep(p.answer.r, call.AnswerLimit+1)
}

// outputOf reads a command's output, which it yields or streams to conn. The number of dropped bytes
// is there once the channel has yielded.
func outputOf(req call.Request, from io.Reader, conn *net.UnixConn) (output <-chan []byte, dropped *uint64) {
	dropped = new(uint64)
	if !req.Stream {
		return keep(from, call.OutputLimit), dropped
	}
	done := make(chan []byte, 1)
	// A caller that does not read holds the command up for no longer than the command's time.
	_ = conn.SetWriteDeadline(time.Now().Add(req.Time + receiveLimit))
	go func() {
		*dropped = relay(from, func(data []byte) error { return call.WriteReply(conn, call.Reply{Output: data}) })
		done <- nil
	}()
	return done, dropped
}

// relay reads from to its end and sends the first StreamLimit bytes, unless send fails before. It
// returns the number of other bytes.
func relay(from io.Reader, send func([]byte) error) (dropped uint64) {
	piece, left := make([]byte, 32<<10), call.StreamLimit
	for {
		n, err := from.Read(piece)
		if sent := min(n, left); sent > 0 {
			if left -= sent; send(piece[:sent]) != nil {
				left = 0
			}
			n -= sent
		}
		dropped += uint64(n)
		if err != nil {
			return dropped
		}
	}
}

// restart has commands begin with the environment of the run that it begins.
func (s *server) restart(stop time.Duration) call.Reply {
	reply := s.init.restart(stop)
	if reply.End != call.Exited {
		return reply
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.env.take(); err != nil {
		_ = fail(0, err) // init could read it: commands keep the old environment
	}
	return reply
}

// start starts the reaper of one command.
func (s *server) start(req call.Request, p *pipes) (<-chan syscall.WaitStatus, error) {
	kind, variables := "", append(req.Env, reasonVariable)
	files := []uintptr{p.control.r.Fd(), p.output.w.Fd(), p.output.w.Fd(), p.reason.w.Fd(), p.status.w.Fd()}
	if req.Answer {
		kind, variables = answering, append(variables, answerVariable)
		files = append(files, p.input.r.Fd(), p.answer.w.Fd())
	}
	argv := append([]string{reaperRole, req.Time.String(), kind}, req.Argv...)
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(self, argv, &syscall.ProcAttr{Env: append(os.Environ(), variables...), Files: files})
	p.childHas()
	if err != nil {
		return nil, fmt.Errorf("start the command's reaper: %w", err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	s.reapers[pid] = ended
	return ended, nil
}

// reapAll collects the status of reapers, and kills the leftovers of a killed reaper.
func (s *server) reapAll(died <-chan os.Signal) {
	for range died {
		s.mu.Lock()
		var done []func()
		reapEnded(func(pid int, status syscall.WaitStatus) {
			if ended, known := s.reapers[pid]; known {
				delete(s.reapers, pid)
				done = append(done, func() { ended <- status })
			}
		})
		// Its children are ours now; their end wakes us again for theirs.
		killBelow(func(pid int) bool { return s.reapers[pid] != nil })
		s.mu.Unlock()
		for _, tell := range done {
			tell()
		}
	}
}
