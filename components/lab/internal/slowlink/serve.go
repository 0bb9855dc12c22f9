package slowlink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// serve is the life of the links' process.
func serve() error {
	conn, err := unixConn(os.NewFile(controlFD, "control"))
	if err != nil {
		return err
	}
	defer conn.Close()
	pumps := map[string]*pump{}
	buf, rights := make([]byte, maxOrder), make([]byte, unix.CmsgSpace(2*4))
	for {
		n, oob, _, _, err := conn.ReadMsgUnix(buf, rights)
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read order: %w", err)
		}
		var a answer
		var o order
		if err := json.Unmarshal(buf[:n], &o); err != nil {
			a.Error = err.Error()
		} else if a.Stats, err = obey(pumps, o, rights[:oob]); err != nil {
			a.Error = err.Error()
		}
		raw, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
		if _, err := conn.Write(raw); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
}

var errNoLink = errors.New("there is no such link, or its interfaces are gone")

func obey(pumps map[string]*pump, o order, rights []byte) (Stats, error) {
	s := Stats{CPU: cpu()}
	u := pumps[o.Link]
	switch o.Verb {
	case add:
		a, b, err := twoDescriptors(rights)
		if err != nil {
			return s, err
		}
		if u != nil {
			return s, errors.Join(errors.New("the name is taken"), unix.Close(a), unix.Close(b))
		}
		u, err = newPump(a, b, o.Params, o.Seed)
		if err != nil {
			return s, errors.Join(err, unix.Close(a), unix.Close(b))
		}
		pumps[o.Link] = u
	case remove:
		if u == nil {
			return s, errNoLink
		}
		u.close()
		delete(pumps, o.Link)
	case set:
		if u == nil || !u.do(func() { u.dirs[0].line.set(o.Params); u.dirs[1].line.set(o.Params) }) {
			return s, errNoLink
		}
	case count:
		if o.Link == "" {
			return s, nil
		}
		if u == nil || !u.do(func() { s.AtoB, s.BtoA = u.dirs[0].stats, u.dirs[1].stats }) {
			return s, errNoLink
		}
	default:
		return s, fmt.Errorf("unknown order %q", o.Verb)
	}
	return s, nil
}

func twoDescriptors(rights []byte) (a, b int, err error) {
	msgs, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(msgs) != 1 {
		return 0, 0, fmt.Errorf("the order came without descriptors: %w", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 2 {
		return 0, 0, fmt.Errorf("the order came with %d descriptors: %w", len(fds), err)
	}
	return fds[0], fds[1], nil
}

func cpu() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
