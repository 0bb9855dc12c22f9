package call

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrNotThere reports that the service takes no commands now: it is not running yet, or not any
// more. No command was started.
var ErrNotThere = errors.New("takes no commands now")

const (
	// sendLimit bounds how long the service may take to accept a request.
	sendLimit = 5 * time.Second
	// endLimit bounds how long the service may take to answer once its command's time is up or the
	// caller has gone.
	endLimit = 10 * time.Second
)

// Do runs one command in the service that shares dir, an absolute folder of the caller's own. It
// returns when no process of the command is left. When ctx ends first, the command is killed, and
// the error is ctx's cause. ErrNotThere is safe to retry.
func Do(ctx context.Context, dir string, req Request) (Reply, error) {
	req.Stream = false
	return do(ctx, dir, req, nil)
}

// Stream is Do that gives take the command's output while it runs, at most StreamLimit bytes. take
// must not keep data. An error of take kills the command and is returned. A slow take makes the
// command wait, for at most the command's time.
func Stream(ctx context.Context, dir string, req Request, take func(data []byte) error) (Reply, error) {
	req.Stream = true
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return do(ctx, dir, req, func(data []byte) {
		if ctx.Err() == nil {
			if err := take(data); err != nil {
				cancel(err)
			}
		}
	})
}

func do(ctx context.Context, dir string, req Request, take func([]byte)) (Reply, error) {
	if err := req.Check(); err != nil {
		return Reply{}, err
	}
	conn, err := dial(ctx, filepath.Join(dir, SocketName))
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close() //nolint:errcheck // answered, or given up
	if err := conn.SetDeadline(time.Now().Add(sendLimit)); err != nil {
		return Reply{}, err
	}
	if err := writeFrame(conn, req); err != nil {
		return Reply{}, err
	}
	if err := conn.SetDeadline(time.Now().Add(req.Time + endLimit)); err != nil {
		return Reply{}, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Now().Add(endLimit))
		_ = conn.CloseWrite() // which has the command killed
	})
	defer stop()
	reply, err := lastReply(conn, take)
	if ctx.Err() != nil {
		return Reply{}, context.Cause(ctx)
	}
	if err != nil {
		return Reply{}, err
	}
	// The service's texts are untrusted.
	reply.Reason, reply.Problem = CleanReason(reply.Reason), CleanReason(reply.Problem)
	reply.Output = reply.Output[:min(len(reply.Output), OutputLimit)]
	reply.Answer = reply.Answer[:min(len(reply.Answer), AnswerLimit+1)]
	return reply, nil
}

// lastReply reads the replies before the last one, whose output take gets; nil: there are none.
func lastReply(conn io.Reader, take func([]byte)) (Reply, error) {
	for total := 0; ; {
		var reply Reply
		if err := readFrame(conn, &reply); err != nil || take == nil || reply.End != "" {
			return reply, err
		}
		if total += len(reply.Output); total > StreamLimit {
			return Reply{}, fmt.Errorf("the service sends more than %d bytes of output", StreamLimit)
		}
		take(reply.Output)
	}
}

// dial connects to the socket at path itself, without following links. The service controls the
// folder: a link would lead to sockets that only this side has, such as the guest agent's (INP-11).
func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	const oPath = 0x200000 // O_PATH
	fd, err := syscall.Open(path, oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotThere
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer syscall.Close(fd) //nolint:errcheck // only names the file
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, fmt.Errorf("PATH_ESCAPE: %s is not a socket", path)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, ErrNotThere
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return conn.(*net.UnixConn), nil //nolint:forcetypeassert // "unix" dials this type
}
