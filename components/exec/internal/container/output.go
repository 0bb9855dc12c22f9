package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"cadre.dev/exec/call"
	"cadre.dev/exec/logring"
)

const (
	// maxLogReaders bounds the concurrent readers of the output, each with one piece in memory. The
	// agent has fewer; a place may become free a moment after its reader ended.
	maxLogReaders = 16
	// drainTime bounds the wait at the workload's end until its last output is passed on.
	drainTime = 5 * time.Second
	// drainBytes is the most that a pipe holds.
	drainBytes = 1 << 20
)

// output is the workload's way to standard output and standard error.
type output struct {
	// files are the standard descriptors of each run of the workload.
	files []uintptr
	ring  logring.Ring
	// ends are the read ends of the pipes; empty: the workload has the container's own descriptors.
	ends  []*os.File
	pumps sync.WaitGroup
}

// keepOutput keeps the workload's output for the agent, if the agent asked for that. A failure only
// costs the kept output: the workload then has the container's own descriptors, as without.
func keepOutput(cfg Config, as *syscall.Credential) *output {
	o := &output{files: []uintptr{0, 1, 2}}
	asked, err := os.Lstat(filepath.Join(cfg.Commands, call.KeepLogsName))
	if err != nil || !asked.Mode().IsRegular() {
		return o
	}
	if isTerminal(1) || isTerminal(2) {
		_ = fail(0, errors.New("the output is a terminal's, so none of it is kept: remove tty from the service"))
		return o
	}
	listener, err := listen(filepath.Join(cfg.Commands, call.LogSocketName))
	if err != nil {
		_ = fail(0, fmt.Errorf("the output is not kept: %w", err))
		return o
	}
	if err := o.pipe(as); err != nil {
		_ = fail(0, fmt.Errorf("the output is not kept: %w", errors.Join(err, listener.Close())))
		return o
	}
	go o.serve(listener, cfg.AgentUID)
	return o
}

// pipe gives the workload a pipe for each of the two descriptors.
func (o *output) pipe(as *syscall.Credential) error {
	files := []uintptr{0}
	for _, to := range []*os.File{os.Stdout, os.Stderr} {
		var fds [2]int
		if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
			return err
		}
		// Only the read end must not block: a program does not expect that of its output.
		if err := syscall.SetNonblock(fds[0], true); err != nil {
			return err
		}
		if as != nil {
			// Programs open /dev/stdout, which is the pipe.
			_ = syscall.Fchown(fds[1], int(as.Uid), int(as.Gid))
		}
		end := os.NewFile(uintptr(fds[0]), to.Name())
		o.ends, files = append(o.ends, end), append(files, uintptr(fds[1]))
		o.pumps.Go(func() { o.pump(end, fds[0], to) })
	}
	o.files = files
	return nil
}

// pump passes one descriptor's output on, unchanged. A reader of standard output that does not read
// holds the workload up as before; a reader of the ring never does.
func (o *output) pump(from *os.File, fd int, to *os.File) {
	piece := make([]byte, 32<<10)
	pass := func(n int) {
		_, _ = o.ring.Write(piece[:n])
		_, _ = to.Write(piece[:n]) // a later write may succeed
	}
	for {
		n, err := from.Read(piece)
		pass(n)
		if err != nil {
			break
		}
	}
	// The workload has ended. A leftover process may still hold the pipe open, and write on.
	for left := drainBytes; left > 0; {
		n, err := syscall.Read(fd, piece)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		pass(n)
		left -= n
	}
}

// drain returns when everything that the workload wrote has been passed on.
func (o *output) drain() {
	for _, end := range o.ends {
		_ = end.SetReadDeadline(time.Unix(1, 0))
	}
	done := make(chan struct{})
	go func() {
		o.pumps.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drainTime):
	}
}

func (o *output) serve(listener *net.UnixListener, agent int) {
	readers := make(chan struct{}, maxLogReaders)
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		select {
		case readers <- struct{}{}:
			go func() {
				o.give(conn, agent)
				<-readers
			}()
		default:
			_ = conn.Close()
		}
	}
}

// give sends one reader the lines that it asks for, until its connection ends.
func (o *output) give(conn *net.UnixConn, agent int) {
	defer conn.Close() //nolint:errcheck // sent, or given up
	if err := fromAgent(conn, agent); err != nil {
		_ = fail(0, err)
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(receiveLimit))
	req, err := call.ReadLogRequest(conn)
	if err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if err := call.WritePiece(conn, 0, nil); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		// The reader sends no more bytes: a read returns only at its end.
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	}()
	_ = o.ring.Copy(ctx, req.Lines, req.Follow, func(dropped uint64, data []byte) error {
		return call.WritePiece(conn, dropped, data)
	})
}

func isTerminal(fd uintptr) bool {
	var settings syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TCGETS, uintptr(unsafe.Pointer(&settings))) //nolint:gosec // the call's own argument
	return errno == 0
}
