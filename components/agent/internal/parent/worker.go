package parent

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Argument is the first word after the program's name in a worker's command line.
const Argument = "worker"

// linkFD is the worker's end of the link.
const linkFD = 3

// Worker is the worker's side of the link. Safe for concurrent use.
type Worker struct {
	mu   sync.Mutex // one request at a time
	conn *net.UnixConn
}

// Inherited takes over the link that a parent left. Call it once, before any other code opens
// files: without a parent the descriptor could belong to another open file.
func Inherited() (*Worker, error) {
	var at syscall.Stat_t
	if err := syscall.Fstat(linkFD, &at); err != nil || at.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, errors.New("no parent left a link: start the program without the word " + Argument)
	}
	syscall.CloseOnExec(linkFD)
	conn, err := connOf(os.NewFile(linkFD, "parent"))
	if err != nil {
		return nil, err
	}
	return &Worker{conn: conn}, nil
}

// Key is the Boot key: the same for each worker of one Boot.
func (w *Worker) Key() (*ecdsa.PrivateKey, error) { return w.key(verbKey) }

// NewKey ends this Boot, which is spent, and begins another: the parent closes all that it
// holds and makes another key.
func (w *Worker) NewKey() (*ecdsa.PrivateKey, error) { return w.key(verbNewKey) }

// Run is how many workers the parent had before this one.
func (w *Worker) Run() (uint32, error) {
	value, _, err := w.ask(request{verb: verbRun})
	if err != nil {
		return 0, fmt.Errorf("ask which worker this is: %w", err)
	}
	n, err := strconv.ParseUint(string(value), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("ask which worker this is: %w", err)
	}
	return uint32(n), nil
}

// Beat reports to the parent that this worker makes progress. After the first Beat, the parent ends
// a worker whose beats stop for a minute, and starts another of the same Boot. Call Beat each
// BeatEvery.
func (w *Worker) Beat() error {
	_, _, err := w.ask(request{verb: verbBeat})
	return err
}

func (w *Worker) key(v verb) (*ecdsa.PrivateKey, error) {
	value, _, err := w.ask(request{verb: v})
	if err != nil {
		return nil, fmt.Errorf("ask for the boot key: %w", err)
	}
	return parseKey(value)
}

// Listen is like net.ListenConfig's, on sockets that outlive this worker: clients that connect
// between two workers wait. Close releases the socket permanently. Accept of the listener returns
// *net.TCPConn. The parent rejects addresses off loopback, except those of its Sessions.
func (w *Worker) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	n := name{network: network, address: address}
	file, err := w.socket(n)
	if errors.Is(err, errFull) {
		// A socket that does not outlive this worker is better than none.
		return (&net.ListenConfig{}).Listen(ctx, network, address)
	}
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	defer file.Close() //nolint:errcheck // the listener uses its own duplicate
	l, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		_ = l.Close()
		return nil, fmt.Errorf("listen on %s: the socket is a %T", n, l)
	}
	return &Listener{TCPListener: tcp, worker: w, name: n}, nil
}

// ListenPacket is net.ListenConfig's and gives a *net.UDPConn. The socket outlives this
// worker if it is that of the parent's Sessions; others are opened here.
func (w *Worker) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	file, err := w.socket(name{network: network, address: address})
	if err != nil {
		return (&net.ListenConfig{}).ListenPacket(ctx, network, address)
	}
	defer file.Close() //nolint:errcheck // the listener uses its own duplicate
	return net.FilePacketConn(file)
}

func (w *Worker) socket(n name) (*os.File, error) {
	_, file, err := w.ask(request{verb: verbListen, name: n})
	if err == nil && file == nil {
		err = errors.New("the parent sent no socket")
	}
	return file, err
}

// ask sends one request and reads its answer.
func (w *Worker) ask(r request) ([]byte, *os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	message := r.encode()
	if len(message) > requestLimit {
		return nil, nil, fmt.Errorf("name of %d bytes: too long", len(message))
	}
	if _, err := w.conn.Write(message); err != nil {
		return nil, nil, fmt.Errorf("ask the parent: %w", err)
	}
	data, rights := make([]byte, answerLimit), make([]byte, syscall.CmsgSpace(4))
	n, rn, _, _, err := w.conn.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, nil, fmt.Errorf("read the parent's answer: %w", err)
	}
	file, err := fileOf(rights[:rn], r.name)
	if err != nil {
		return nil, nil, err
	}
	value, err := parseAnswer(data[:n])
	if err != nil && file != nil {
		_ = file.Close()
		file = nil
	}
	return value, file, err
}

// fileOf takes over the rights that came with a message, at most one file.
func fileOf(rights []byte, n name) (*os.File, error) {
	if len(rights) == 0 {
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("read the parent's socket: %d messages, %w", len(messages), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("read the parent's socket: %d files, %w", len(fds), err)
	}
	return os.NewFile(uintptr(fds[0]), n.String()), nil
}

// Listener is a socket that the parent holds.
type Listener struct {
	*net.TCPListener

	worker *Worker
	name   name
	once   sync.Once
}

// Close gives the socket up: the parent closes it too, soon.
func (l *Listener) Close() error {
	err := l.TCPListener.Close()
	l.once.Do(func() { _, _, _ = l.worker.ask(request{verb: verbRelease, name: l.name}) })
	return err
}
