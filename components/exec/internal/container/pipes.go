package container

import (
	"errors"
	"io"
	"os"
	"time"
)

type pipe struct{ r, w *os.File }

// pipes between the server and one reaper.
type pipes struct{ control, output, reason, status pipe }

func newPipes() (*pipes, error) {
	p := &pipes{}
	for _, one := range []*pipe{&p.control, &p.output, &p.reason, &p.status} {
		var err error
		if one.r, one.w, err = os.Pipe(); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// childHas closes the reaper's ends here.
func (p *pipes) childHas() {
	_ = errors.Join(p.control.r.Close(), p.output.w.Close(), p.reason.w.Close(), p.status.w.Close())
}

// drain bounds the remaining reads.
func (p *pipes) drain() {
	for _, one := range []pipe{p.output, p.reason, p.status} {
		_ = one.r.SetReadDeadline(time.Now().Add(drainLimit))
	}
}

func (p *pipes) close() {
	for _, one := range []pipe{p.control, p.output, p.reason, p.status} {
		for _, f := range []*os.File{one.r, one.w} {
			if f != nil {
				_ = f.Close()
			}
		}
	}
}

// keep reads r to its end and yields the first limit bytes, so that the writer never blocks.
func keep(r io.Reader, limit int64) <-chan []byte {
	out := make(chan []byte, 1)
	go func() {
		kept, _ := io.ReadAll(io.LimitReader(r, limit))
		_, _ = io.Copy(io.Discard, r)
		out <- kept
	}()
	return out
}
