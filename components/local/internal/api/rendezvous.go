package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Rendezvous is the program where CVMs find each other's candidates. Safe for
// concurrent use.
type Rendezvous interface {
	// Describe returns the members' configuration, as JSON-able data.
	Describe() any
	// Stop ends it and keeps it from being started again; Start undoes that, and
	// does nothing while it runs.
	Stop(ctx context.Context) error
	Start() error
}

var errNoRendezvous = errors.New("this cloud has no rendezvous: start it with --rendezvous")

func (s *Server) getRendezvous(*http.Request) (int, any, error) {
	if s.cfg.Rendezvous == nil {
		return 0, nil, errNoRendezvous
	}
	return http.StatusOK, s.cfg.Rendezvous.Describe(), nil
}

func (s *Server) switchRendezvous(r *http.Request) (int, any, error) {
	if s.cfg.Rendezvous == nil {
		return 0, nil, errNoRendezvous
	}
	switch verb := r.PathValue("verb"); verb {
	case "stop":
		return http.StatusNoContent, nil, s.cfg.Rendezvous.Stop(r.Context())
	case "start":
		return http.StatusNoContent, nil, s.cfg.Rendezvous.Start()
	default:
		return 0, nil, fmt.Errorf("rendezvous: %q is not start or stop", verb)
	}
}
