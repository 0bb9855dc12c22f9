package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const guestSocket = "dstack.sock"

// guestServer serves the guest agent simulator on the CVM's socket.
type guestServer struct {
	srv  *http.Server
	done chan struct{}
}

func serveGuest(ctx context.Context, dir string, h http.Handler) (*guestServer, error) {
	l, err := listenIn(ctx, dir, guestSocket)
	if err != nil {
		return nil, fmt.Errorf("listen on guest socket: %w", err)
	}
	// Open to every user of the CVM, as the real one.
	if err := os.Chmod(filepath.Join(dir, guestSocket), 0o777); err != nil { //nolint:gosec // as the line above says
		l.Close()
		return nil, fmt.Errorf("open guest socket to all: %w", err)
	}
	g := &guestServer{srv: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		_ = g.srv.Serve(l)
	}()
	return g, nil
}

func (g *guestServer) close() {
	_ = g.srv.Close()
	<-g.done
}

// listenIn listens on dir/name for a dir of any length: socket addresses hold about 100 characters,
// the name below an open directory is always short.
func listenIn(ctx context.Context, dir, name string) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name))
	if err != nil {
		return nil, err
	}
	// The address is of this moment; the run directory is removed as a whole.
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	return l, nil
}

func present(tool string) error {
	_, err := exec.LookPath(tool)
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not on PATH: install bubblewrap and util-linux", tool)
	}
	return err
}
