package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	listenPort = 8443
	stunPort   = 3478

	// again is the pause before a restart of the program; grace is its time for an orderly end.
	again = time.Second
	grace = 3 * time.Second
)

// Config is a Server.
type Config struct {
	// Program is the binary.
	Program string
	// Dir keeps the certificate, and the roots of clusters; LogFile is appended to.
	Dir     string
	LogFile string
	// Address is the fabric's.
	Address netip.Addr
	// Start starts a process in the fabric.
	Start func(*exec.Cmd) error
	Log   *slog.Logger
}

// Info has the settings for members and their operators.
type Info struct {
	URL string `json:"url"`
	// CA is the certificate to trust, PEM; CAFile the same on the host.
	CA     string `json:"ca"`
	CAFile string `json:"ca_file"`
	// STUN is address:port, over UDP and TCP.
	STUN string `json:"stun"`
	// Roots is the directory that wants <cluster>.pem of each cluster.
	Roots   string `json:"roots"`
	LogFile string `json:"log_file"`
	Running bool   `json:"running"`
}

// Server supervises the program. Safe for concurrent use.
type Server struct {
	cfg  Config
	info Info

	mu      sync.Mutex // guards the following
	wanted  bool
	process *os.Process   // nil while it does not run
	ended   chan struct{} // closed when process has been waited for
	changed chan struct{} // one token: wanted has changed
}

// New prepares the directory: certificate, CA, an empty roots directory.
func New(cfg Config) (*Server, error) {
	roots := filepath.Join(cfg.Dir, "roots")
	for _, d := range []string{roots, filepath.Dir(cfg.LogFile)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	if err := certify(cfg.Dir, cfg.Address, time.Now()); err != nil {
		return nil, fmt.Errorf("certify rendezvous: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(cfg.Dir, caFile))
	if err != nil {
		return nil, fmt.Errorf("read rendezvous ca: %w", err)
	}
	return &Server{
		cfg: cfg, wanted: true, changed: make(chan struct{}, 1),
		info: Info{
			URL: "https://" + netip.AddrPortFrom(cfg.Address, listenPort).String(), CA: string(ca), CAFile: filepath.Join(cfg.Dir, caFile),
			STUN: netip.AddrPortFrom(cfg.Address, stunPort).String(), Roots: roots, LogFile: cfg.LogFile,
		},
	}, nil
}

// Info is the result of Describe.
func (s *Server) Info() Info { return s.Describe().(Info) }

// Describe is an Info.
func (s *Server) Describe() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.info
	i.Running = s.process != nil
	return i
}

// Run keeps the program running until ctx ends, then ends it in order.
func (s *Server) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		s.mu.Lock()
		wanted := s.wanted
		s.mu.Unlock()
		if !wanted {
			select {
			case <-s.changed:
			case <-ctx.Done():
			}
			continue
		}
		if err := s.once(ctx); ctx.Err() == nil {
			s.cfg.Log.Warn("rendezvous ended", "error", err, "log", s.cfg.LogFile)
		}
		select {
		case <-time.After(again):
		case <-s.changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// once runs the program to its end.
func (s *Server) once(ctx context.Context) error {
	out, err := os.OpenFile(s.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(s.cfg.Program, //nolint:noctx // Run ends it in order
		"--listen", netip.AddrPortFrom(s.cfg.Address, listenPort).String(), "--stun", s.info.STUN, "--relay-ip", s.cfg.Address.String(),
		"--roots", s.info.Roots, "--allow-private-relay",
		"--tls-cert", filepath.Join(s.cfg.Dir, certFile), "--tls-key", filepath.Join(s.cfg.Dir, keyFile))
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, s.cfg.Dir
	// Nothing of the daemon's environment is the program's business.
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	s.mu.Lock()
	if !s.wanted {
		s.mu.Unlock()
		return nil
	}
	if err := s.cfg.Start(cmd); err != nil {
		s.mu.Unlock()
		return fmt.Errorf("start: %w", err)
	}
	ended := make(chan struct{})
	s.process, s.ended = cmd.Process, ended
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.process = nil
		s.mu.Unlock()
		close(ended)
	}()
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(grace):
			_ = cmd.Process.Kill()
		}
	})
	defer stop()
	return cmd.Wait()
}

// Stop kills the program, as an outage would, and keeps it from starting again.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.wanted = false
	process, ended := s.process, s.ended
	s.mu.Unlock()
	if process == nil {
		return nil
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop rendezvous: %w", err)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Start lets it run again.
func (s *Server) Start() error {
	s.mu.Lock()
	s.wanted = true
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}
