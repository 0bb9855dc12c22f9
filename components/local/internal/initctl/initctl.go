package initctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"cadre.dev/local/internal/images"
)

// ControlFD is the descriptor of the socket pair inside pid 1.
const ControlFD = 3

// Spec is one boot of one CVM.
type Spec struct {
	Hostname string            `json:"hostname"`
	Compose  string            `json:"compose"`
	Env      map[string]string `json:"env"`
	Images   images.Map        `json:"images"`
	// InitScript runs before the container engine starts; empty is none.
	InitScript string `json:"init_script,omitempty"`
	// Become is the path of the cadre-become program.
	Become string `json:"become"`
	// Disk outlives the boot; Run does not and is private to it; Logs outlives it.
	Disk string `json:"disk"`
	Run  string `json:"run"`
	Logs string `json:"logs"`
	// GuestSocket is the guest agent's socket on the host.
	GuestSocket string `json:"guest_socket"`
	// Hide lists host directories that no service may see.
	Hide []string `json:"hide"`
}

// Request asks pid 1 for something. Exactly one of the pointers is set.
type Request struct {
	ID   uint64 `json:"id"`
	Stop *Stop  `json:"stop,omitempty"`
	Exec *Exec  `json:"exec,omitempty"`
	Hold *Hold  `json:"hold,omitempty"`
	List *List  `json:"list,omitempty"`
	// Images is sent once, unasked: services of the compose file start after it.
	Images *Images `json:"images,omitempty"`
}

// Images says how the pulling of the compose file's images ended.
type Images struct {
	// Unpacked are the container images of the compose file, by reference. The others
	// are looked up in the Spec's Images.
	Unpacked map[string]images.Unpacked `json:"unpacked,omitempty"`
	// Error names services and images that could not be had; "" is none.
	Error string `json:"error,omitempty"`
}

// Stop ends all services in reverse dependency order, each with its grace.
type Stop struct{}

// List asks for the state of the services.
type List struct{}

// Exec runs a command in the namespaces of Service, or in a separate sandbox when Service is empty.
// Env is added to the service's own.
type Exec struct {
	Service string   `json:"service,omitempty"`
	Command []string `json:"command"`
	Stdin   string   `json:"stdin,omitempty"`
	User    string   `json:"user,omitempty"`
}

// Hold stops (SIGSTOP) or continues all processes of Service; "" is all services.
type Hold struct {
	Service string `json:"service,omitempty"`
	Stop    bool   `json:"stop"`
}

// Message is a message of pid 1: an Event, or the reply to Request ID.
type Message struct {
	ID    uint64 `json:"id,omitempty"`
	Event Event  `json:"event,omitempty"`
	// Text explains a boot error or a wait, or why a request was not carried out.
	Text     string    `json:"text,omitempty"`
	Output   *Output   `json:"output,omitempty"`
	Services []Service `json:"services,omitempty"`
}

// Event is a transition of the boot.
type Event string

const (
	// EventAccepted says that the compose file was understood; services are starting.
	EventAccepted Event = "accepted"
	// EventUp: every service has been started once, and fulfils its dependants' conditions.
	EventUp Event = "up"
	// EventBootError says that the compose file was refused (nothing runs), or a service
	// could not be started. In the second case EventUp may follow.
	EventBootError Event = "boot_error"
	// EventWaiting says which service could not be started yet, and is tried again.
	EventWaiting Event = "waiting"
	// EventStopped answers Stop: no service runs any more.
	EventStopped Event = "stopped"
	// EventReply answers any other request.
	EventReply Event = "reply"
)

// Output is the result of an Exec.
type Output struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Code   int    `json:"code"`
}

// Service is the state of one service.
type Service struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	PID      int    `json:"pid,omitempty"` // of its first process, in the CVM
	Restarts int    `json:"restarts"`
	// StartedAt is when it started last; zero before the first time.
	StartedAt time.Time `json:"started_at,omitzero"`
	ExitCode  *int      `json:"exit_code,omitempty"`
	Health    string    `json:"health,omitempty"`
}

// Conn carries JSON lines. Send is safe for concurrent use; Receive is for one
// goroutine.
type Conn struct {
	c   net.Conn
	dec *json.Decoder
	mu  sync.Mutex
	enc *json.Encoder
}

// NewConn wraps c.
func NewConn(c net.Conn) *Conn {
	return &Conn{c: c, dec: json.NewDecoder(c), enc: json.NewEncoder(c)}
}

// FromFile makes a Conn of one end of the socket pair and closes f.
func FromFile(f *os.File) (*Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	return NewConn(c), nil
}

// Send writes one message.
func (c *Conn) Send(v any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enc.Encode(v)
}

// Receive reads one message; io.EOF when the other side is gone.
func (c *Conn) Receive(v any) error {
	if err := c.dec.Decode(v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return io.EOF
		}
		return err
	}
	return nil
}

// Close closes the socket.
func (c *Conn) Close() error { return c.c.Close() }
