package container

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"cadre.dev/exec/call"
)

// initLink is the server's way to init, whose end is the server's.
type initLink struct {
	conn    io.ReadWriter
	one     sync.Mutex // held while a restart is under way
	answers chan string
}

func newInitLink(conn io.ReadWriter) *initLink {
	return &initLink{conn: conn, answers: make(chan string)}
}

// hear passes answers on until init is gone, or will be.
func (l *initLink) hear() {
	defer close(l.answers)
	for lines := bufio.NewScanner(l.conn); lines.Scan(); {
		l.answers <- lines.Text()
	}
}

// restart asks init to end the workload within stop, and to start it again.
func (l *initLink) restart(stop time.Duration) call.Reply {
	if !l.one.TryLock() {
		return notStarted(errors.New("it is being restarted already"))
	}
	defer l.one.Unlock()
	if _, err := fmt.Fprintln(l.conn, stop); err != nil {
		return notStarted(err)
	}
	switch problem, lives := <-l.answers; {
	case !lives:
		return notStarted(errors.New("the container ends"))
	case problem != "":
		return notStarted(errors.New(problem))
	}
	return call.Reply{End: call.Exited}
}
