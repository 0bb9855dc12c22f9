package vmmapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fault"
)

// Mode is how the endpoint of a host behaves.
type Mode string

const (
	// Up answers.
	Up Mode = "up"
	// Hang takes connections and requests, and answers none.
	Hang Mode = "hang"
	// Refuse resets each connection.
	Refuse Mode = "refuse"
)

// door is the way into the endpoint of one host.
type door struct {
	mu      sync.Mutex // guards the following
	mode    Mode
	turn    int           // counts the changes
	waiting int           // requests that hang
	changed chan struct{} // closed with the next change
}

func newDoor() *door { return &door{mode: Up, changed: make(chan struct{})} }

// set changes the mode; after that time, unless it is 0, the door is open again.
func (d *door) set(m Mode, after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.change(m)
	if turn := d.turn; after > 0 {
		time.AfterFunc(after, func() { d.reopen(turn) })
	}
}

// reopen opens the door unless another change came first.
func (d *door) reopen(turn int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turn == turn {
		d.change(Up)
	}
}

// change is called under the lock.
func (d *door) change(m Mode) {
	d.mode = m
	d.turn++
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *door) now() (Mode, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mode, d.changed
}

func (d *door) wait(by int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting += by
	return d.waiting
}

// wrap lets requests through while the door is open. A request that came to a closed door is never
// carried out.
func (d *door) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mode, changed := d.now()
		switch mode {
		case Up:
			next.ServeHTTP(w, r)
		case Hang:
			// Read to the end: only then does the server notice that a caller left.
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
			d.wait(1)
			select {
			case <-changed:
			case <-r.Context().Done():
			}
			d.wait(-1)
			fault.HangUp(w)
		case Refuse:
			reset(w)
		}
	})
}

// reset closes the connection as a host without a listener does.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Local serves /_local/hosts: the state of hosts, their power and their endpoints.
func (s *Server) Local() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_local/hosts", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.hostViews()) })
	mux.HandleFunc("PUT /_local/hosts/{host}", s.local(s.putHost))
	mux.HandleFunc("POST /_local/hosts/{host}/{verb}", s.local(s.act))
	return mux
}

func (s *Server) hostViews() []map[string]any {
	out := []map[string]any{}
	for _, host := range s.cfg.Hosts {
		mode, _ := s.doors[host].now()
		out = append(out, map[string]any{"name": host, "power": !s.cfg.Cloud.HostDown(host), "endpoint": mode, "waiting": s.doors[host].wait(0), "vms": len(s.cfg.Cloud.VMs(host))})
	}
	return out
}

func (s *Server) local(do func(host string, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host := r.PathValue("host")
		if s.doors[host] == nil {
			write(w, http.StatusNotFound, map[string]string{"detail": fmt.Sprintf("no host is named %.64q; GET /_local/hosts lists them", host)})
			return
		}
		if err := do(host, r); err != nil {
			write(w, http.StatusBadRequest, map[string]string{"detail": err.Error()})
			return
		}
		write(w, http.StatusOK, s.hostViews())
	}
}

// putHost changes the endpoint of a host; its VMs run on.
func (s *Server) putHost(host string, r *http.Request) error {
	var req struct {
		Endpoint Mode           `json:"endpoint"`
		For      cloud.Duration `json:"for"`
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return err
	}
	switch req.Endpoint {
	case Up:
		if s.cfg.Cloud.HostDown(host) {
			return fmt.Errorf("endpoint: host %s has no power; POST /_local/hosts/%s/return gives it back", host, host)
		}
	case Hang, Refuse:
	default:
		return fmt.Errorf("endpoint: %.40q is not one of up, hang, refuse", req.Endpoint)
	}
	if s.cfg.Cloud.HostDown(host) && req.For > 0 {
		return errors.New("for: the endpoint of a host without power cannot come back on its own; leave the field out")
	}
	s.doors[host].set(req.Endpoint, time.Duration(req.For))
	return nil
}

// act changes the power of a host, or restarts its server.
func (s *Server) act(host string, r *http.Request) error {
	c := s.cfg.Cloud
	switch verb := r.PathValue("verb"); verb {
	case "kill":
		s.doors[host].set(Hang, 0)
		return c.KillHost(host)
	case "return":
		if !c.HostDown(host) {
			return fmt.Errorf("host %s has power", host)
		}
		err := c.ReturnHost(host)
		s.doors[host].set(Up, 0)
		return err
	case "restart-vmm":
		if c.HostDown(host) {
			return fmt.Errorf("host %s has no power", host)
		}
		return c.RestartVMM(host)
	default:
		return fmt.Errorf("%.40q is not one of kill, return, restart-vmm", verb)
	}
}
