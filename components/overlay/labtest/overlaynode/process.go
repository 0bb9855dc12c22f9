package overlaynode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Starter runs a command somewhere, such as in a namespace.
type Starter interface {
	Start(cmd *exec.Cmd) error
}

// Process is a running child. Its methods may be called concurrently.
type Process struct {
	cmd  *exec.Cmd
	log  *os.File
	in   io.WriteCloser
	done chan struct{} // closed when nothing more will be read

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan Response // guarded by mu
}

// StartNode runs a node at a place. dir keeps its configuration and log.
func StartNode(at Starter, dir, name string, c Config) (*Process, error) {
	return start(at, dir, name, envNode, c)
}

// StartHostile runs a hostile member at a place.
func StartHostile(at Starter, dir, name string, c Hostile) (*Process, error) {
	return start(at, dir, name, envHostile, c)
}

// StartRendezvous runs a rendezvous server at a place.
func StartRendezvous(at Starter, dir, name string, c Rendezvous) (*Process, error) {
	return start(at, dir, name, envRendezvous, c)
}

func start(at Starter, dir, name, env string, config any) (*Process, error) {
	b, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name+".json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:noctx // the program itself, which ends with its standard input
	cmd.Env = append(os.Environ(), env+"="+path)
	cmd.Stderr = log
	p := &Process{cmd: cmd, log: log, done: make(chan struct{}), waiting: map[uint64]chan Response{}}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	ready := p.expect(0)
	if err := at.Start(cmd); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go p.read(out)
	if _, err := p.response(ready); err != nil {
		p.Kill()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("start %s: %w\n%s", name, err, text)
	}
	return p, nil
}

// Log is the file with the process's log.
func (p *Process) Log() string { return p.log.Name() }

// Ask sends a request and waits for its answer.
func (p *Process) Ask(r Request) (Response, error) {
	p.mu.Lock()
	p.last++
	r.ID = p.last
	b, err := json.Marshal(r)
	if err == nil {
		_, err = p.in.Write(append(b, '\n'))
	}
	p.mu.Unlock()
	if err != nil {
		return Response{}, fmt.Errorf("%s: %w", r.Verb, err)
	}
	res, err := p.response(p.expect(r.ID))
	if err != nil {
		return res, fmt.Errorf("%s: %w", r.Verb, err)
	}
	return res, nil
}

// expect returns the channel for the answer to a request; the first caller makes it.
func (p *Process) expect(id uint64) chan Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.waiting[id]
	if !ok {
		c = make(chan Response, 1)
		p.waiting[id] = c
	}
	return c
}

func (p *Process) response(c <-chan Response) (Response, error) {
	var res Response
	select {
	case res = <-c:
	case <-p.done:
		select {
		case res = <-c:
		default:
			return res, errEnded
		}
	}
	p.mu.Lock()
	delete(p.waiting, res.ID)
	p.mu.Unlock()
	if res.Error != "" {
		return res, errors.New(res.Error)
	}
	return res, nil
}

// errEnded reports a process that is gone.
var errEnded = errors.New("process has ended")

// read hands out answers until there are no more.
func (p *Process) read(out io.Reader) {
	defer close(p.done)
	lines := json.NewDecoder(out)
	for {
		var res Response
		if err := lines.Decode(&res); err != nil {
			return
		}
		p.expect(res.ID) <- res
	}
}

// Stop ends the process in order and waits for it.
func (p *Process) Stop() error {
	err := p.in.Close()
	<-p.done
	return errors.Join(err, p.cmd.Wait(), p.log.Close())
}

// Kill ends the process at once and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	_ = p.cmd.Wait()
	_ = p.log.Close()
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }
