package container

import (
	"errors"
	"io"
	"os"
	"time"
)

type pipe struct{ r, w *os.File }

// pipes between the server and one reaper; input and answer only where the command answers.
type pipes struct{ control, output, reason, status, input, answer pipe }

func newPipes(answers bool) (*pipes, error) {
	p := &pipes{}
	all := []*pipe{&p.control, &p.output, &p.reason, &p.status}
	if answers {
		all = append(all, &p.input, &p.answer)
	}
	for _, one := range all {
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
	_ = errors.Join(p.input.r.Close(), p.answer.w.Close()) // a missing file is an error of Close, and no crash
}

// drain bounds the remaining reads.
func (p *pipes) drain() {
	for _, one := range []pipe{p.output, p.reason, p.status, p.answer} {
		_ = one.r.SetReadDeadline(time.Now().Add(drainLimit))
	}
}

func (p *pipes) close() {
	for _, one := range []pipe{p.control, p.output, p.reason, p.status, p.input, p.answer} {
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
