package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fabric"
	"cadre.dev/local/internal/initctl"
	"golang.org/x/sys/unix"
)

var _ cloud.Machine = (*Machine)(nil)

// Machine is one boot of one CVM.
type Machine struct {
	// constant after Boot
	log        *slog.Logger
	run        string
	instanceID string
	port       *fabric.Port
	guest      *guestServer
	conn       *initctl.Conn
	cmd        *exec.Cmd
	notify     func(cloud.Outcome)
	done       chan struct{}
	accepted   chan string // "" or the boot error; one value
	received   chan struct{}
	endPull    context.CancelFunc
	pulled     chan struct{} // closed when nothing is pulled for it any more

	mu      sync.Mutex // guards the following
	last    uint64
	replies map[uint64]chan initctl.Message
	gone    bool
}

// InstanceID is the id that the guest measured.
func (m *Machine) InstanceID() string { return m.instanceID }

// Addr is the CVM's address in the fabric.
func (m *Machine) Addr() netip.Addr { return m.port.Addr }

// Done is closed when every process is gone.
func (m *Machine) Done() <-chan struct{} { return m.done }

// SetLink plugs or pulls the network cable.
func (m *Machine) SetLink(up bool) error { return m.port.SetLink(up) }

// start runs pid 1 in the CVM's namespaces.
func (m *Machine) start(ctx context.Context, program, spec, logPath string) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if m.conn, err = initctl.FromFile(ours); err != nil {
		return err
	}
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of pid 1: %w", err)
	}
	defer out.Close()
	m.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, "cvm-init", "--spec", spec)
	// The guest finds the sandbox programs in this program's PATH.
	m.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr, m.cmd.ExtraFiles = "/", out, out, []*os.File{theirs}
	m.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL, Setsid: true,
	}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the starting *thread* ends, so this one is
		// kept for the machine's whole life.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := m.port.Inside(m.cmd.Start)
		if err == nil {
			go m.receive()
		}
		started <- err
		if err == nil {
			_ = m.cmd.Wait()
			m.ended()
		}
	}()
	if err := <-started; err != nil {
		m.cmd = nil
		return fmt.Errorf("start pid 1: %w", err)
	}
	return nil
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// ended runs once pid 1 was waited for. The kernel has killed the rest of the pid
// namespace by then: pid 1's exit waits for it.
func (m *Machine) ended() {
	m.endPull()
	<-m.pulled
	<-m.received // its last words, before the socket is closed
	m.mu.Lock()
	m.gone = true
	for id, ch := range m.replies {
		close(ch)
		delete(m.replies, id)
	}
	m.mu.Unlock()
	m.cleanUp()
	close(m.done)
}

func (m *Machine) cleanUp() {
	if m.conn != nil {
		_ = m.conn.Close()
	}
	if m.guest != nil {
		m.guest.close()
	}
	if m.port != nil {
		if err := m.port.Close(); err != nil {
			m.log.Warn("cable not removed", "error", err)
		}
	}
	if err := os.RemoveAll(m.run); err != nil {
		m.log.Warn("run directory not removed", "error", err)
	}
}

// receive delivers pid 1's messages until the socket closes.
func (m *Machine) receive() {
	defer close(m.received)
	waiting := true
	for {
		var msg initctl.Message
		if err := m.conn.Receive(&msg); err != nil {
			return
		}
		switch msg.Event {
		case initctl.EventAccepted:
			m.accepted <- ""
			waiting = false
		case initctl.EventBootError, initctl.EventUp, initctl.EventWaiting:
			if waiting {
				waiting = false
				m.accepted <- msg.Text
			} else if m.notify != nil {
				m.notify(outcome(msg))
			}
		default:
			m.mu.Lock()
			ch := m.replies[msg.ID]
			delete(m.replies, msg.ID)
			m.mu.Unlock()
			if ch != nil {
				ch <- msg
			}
		}
	}
}

func outcome(msg initctl.Message) cloud.Outcome {
	if msg.Event == initctl.EventWaiting {
		return cloud.Outcome{Waiting: msg.Text}
	}
	return cloud.Outcome{Error: msg.Text}
}

// ask sends r and waits for its reply.
func (m *Machine) ask(ctx context.Context, r initctl.Request) (initctl.Message, error) {
	ch := make(chan initctl.Message, 1)
	m.mu.Lock()
	if m.gone {
		m.mu.Unlock()
		return initctl.Message{}, errGone
	}
	m.last++
	r.ID = m.last
	m.replies[r.ID] = ch
	m.mu.Unlock()
	if err := m.conn.Send(r); err != nil {
		return initctl.Message{}, errGone
	}
	select {
	case msg, ok := <-ch:
		if !ok {
			return msg, errGone
		}
		if msg.Text != "" {
			return msg, errors.New(msg.Text)
		}
		return msg, nil
	case <-ctx.Done():
		return initctl.Message{}, context.Cause(ctx)
	}
}

var errGone = errors.New("the CVM is not running any more")

// stopSlack is pid 1's time in addition to the services' own grace periods.
const stopSlack = 15 * time.Minute

// Stop ends the services in order, then the machine. A ctx that ends makes it a Kill.
func (m *Machine) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopSlack)
	defer cancel()
	_, _ = m.ask(ctx, initctl.Request{Stop: &initctl.Stop{}})
	m.signal()
	<-m.done
}

// Kill pulls the cable, so that no connection says good-bye, and ends everything.
func (m *Machine) Kill() {
	if m.cmd == nil {
		return
	}
	_ = m.port.SetLink(false)
	m.signal()
	<-m.done
}

func (m *Machine) signal() { _ = m.cmd.Process.Kill() }

// Exec runs a command in the CVM.
func (m *Machine) Exec(ctx context.Context, e initctl.Exec) (initctl.Output, error) {
	msg, err := m.ask(ctx, initctl.Request{Exec: &e})
	if msg.Output == nil {
		return initctl.Output{}, err
	}
	return *msg.Output, err
}

// Hold stops or continues a service's processes.
func (m *Machine) Hold(ctx context.Context, h initctl.Hold) error {
	_, err := m.ask(ctx, initctl.Request{Hold: &h})
	return err
}

// Services lists the services and their states.
func (m *Machine) Services(ctx context.Context) ([]initctl.Service, error) {
	msg, err := m.ask(ctx, initctl.Request{List: &initctl.List{}})
	return msg.Services, err
}
