package api

import (
	"crypto/ecdh"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fault"
	"github.com/google/uuid"
)

// maxBody holds the largest compose and the largest encrypted env.
const maxBody = 8 << 20

// Config is what the API needs.
type Config struct {
	Cloud *cloud.Cloud
	// Key is the only API key.
	Key string
	// Domain is the gateway's base domain.
	Domain string
	// Images names the OS images on offer.
	Images []string
	// EnvKey is an app's key for encrypted environments; SignEnvKey signs its
	// public half as the KMS does, nil leaves signatures out.
	EnvKey     func(appID string) (*ecdh.PrivateKey, error)
	SignEnvKey func(appID string, timestamp uint64) (legacy, v1 []byte, err error)
	// EvidenceFaults makes a CVM's guest agent misbehave from its next boot on.
	EvidenceFaults func(uuid string, f attestsim.Faults)
	// Gateway returns the gateway's counters as JSON-able data.
	Gateway func() any
	// ContainerImages lists what the cloud's registry serves, as JSON-able data; nil when
	// it has none.
	ContainerImages func() any
	// Networks are the CVMs' connections; nil answers that there are none.
	Networks Networks
	// Rendezvous describes the cloud's rendezvous and switches it; nil when there is none.
	Rendezvous Rendezvous
	// PCCS serves the simulated manufacturer's collateral, to anybody, as a caching
	// service does; nil serves none.
	PCCS *attestsim.PCCS
	// LogDir gives the directory of a CVM's service logs.
	LogDir func(uuid string) string
	Log    *slog.Logger
}

// Server answers the API. Safe for concurrent use.
type Server struct {
	cfg    Config
	faults *fault.Injector
	calls  *fault.Log
}

// New makes a Server.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, faults: &fault.Injector{}, calls: &fault.Log{}}
}

// Public is the API that operators and CVMs reach.
func (s *Server) Public() http.Handler {
	mux := http.NewServeMux()
	const v1 = "/api/v1"
	for pattern, h := range map[string]handler{
		"GET /auth/me":                              s.me,
		"GET /workspaces":                           s.workspaces,
		"GET /workspaces/{slug}":                    s.workspace,
		"GET /apps":                                 s.listApps,
		"GET /apps/filter-options":                  s.filterOptions,
		"GET /apps/{app}":                           s.getApp,
		"GET /apps/{app}/cvms":                      s.appCVMs,
		"GET /apps/{app}/revisions":                 s.revisions,
		"GET /apps/{app}/revisions/{rev}":           s.revision,
		"POST /apps/{app}/revisions/{rev}/redeploy": s.redeploy,
		"POST /apps/{app}/instances":                s.addInstance,
		"POST /cvms/{cvm}/revisions/{rev}/redeploy": s.redeployOne,
		"GET /cvms/paginated":                       s.listCVMs,
		"POST /cvms/provision":                      s.provision,
		"POST /cvms":                                s.commit,
		"GET /cvms/{cvm}":                           s.getCVM,
		"DELETE /cvms/{cvm}":                        s.deleteCVM,
		"GET /cvms/{cvm}/state":                     s.state,
		"GET /cvms/{cvm}/compose_file":              s.getCompose,
		"POST /cvms/{cvm}/compose_file/provision":   s.provisionUpdate,
		"PATCH /cvms/{cvm}/compose_file":            s.patchCompose,
		"PATCH /cvms/{cvm}/envs":                    s.patchEnvs,
		"PATCH /cvms/{cvm}/os-image":                s.patchImage,
		"PATCH /cvms/{cvm}/resources":               s.patchResources,
		"PATCH /cvms/{cvm}/name":                    s.patchName,
		"POST /cvms/{cvm}/start":                    s.power(cloud.PowerStart),
		"POST /cvms/{cvm}/stop":                     s.power(cloud.PowerStop),
		"POST /cvms/{cvm}/shutdown":                 s.power(cloud.PowerShutdown),
		"POST /cvms/{cvm}/restart":                  s.restart,
		"POST /status/batch":                        s.batch,
		"GET /teepods/available":                    s.nodes,
		"GET /kms/phala/next_app_id":                s.nextAppID,
		"GET /kms/{kms}/pubkey/{app}":               s.pubkey,
		"GET /os-images":                            s.osImages,
		"GET /instance-types":                       s.instanceTypes,
		"GET /instance-types/{family}":              s.instanceFamily,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" "+v1+path, s.wrap(h))
	}
	api := s.front(fault.Wrap(mux, s.faults, s.calls, s.about))
	if s.cfg.PCCS == nil {
		return api
	}
	all := http.NewServeMux()
	all.Handle("/", api)
	all.Handle("/sgx/certification/", s.cfg.PCCS)
	all.Handle("/tdx/certification/", s.cfg.PCCS)
	return all
}

// Host is Public plus /_local/, for the host only.
func (s *Server) Host() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.Public())
	mux.Handle("/_local/", s.front(s.local()))
	return mux
}

// front answers what every request goes through: request id, size, key.
func (s *Server) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-ID", uuid.NewString())
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-API-Key")), []byte(s.cfg.Key)) != 1 {
			write(w, http.StatusUnauthorized, map[string]any{"detail": "Invalid API key"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// about names the CVM of a request's path, for faults and log.
func (s *Server) about(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/cvms/")
	if !ok {
		return ""
	}
	ref, _, _ := strings.Cut(rest, "/")
	if v, err := s.cfg.Cloud.Find(ref); err == nil {
		return v.Name
	}
	return ""
}

// handler answers one call with a status and a JSON body, or refuses.
type handler func(r *http.Request) (int, any, error)

// raw is a body that is not JSON-encoded again.
type raw struct {
	contentType string
	bytes       []byte
}

func (s *Server) wrap(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, body, err := h(r)
		if err != nil {
			code, body = problem(err)
			if code >= 500 {
				s.cfg.Log.Error("api call failed", "path", r.URL.Path, "error", err)
			}
		}
		if stream, ok := body.(func(http.ResponseWriter, *http.Request)); ok {
			stream(w, r)
			return
		}
		write(w, code, body)
	})
}

func write(w http.ResponseWriter, code int, body any) {
	if b, ok := body.(raw); ok {
		w.Header().Set("Content-Type", b.contentType)
		w.WriteHeader(code)
		_, _ = w.Write(b.bytes)
		return
	}
	if body == nil {
		w.WriteHeader(code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body)
}

// errBody is a request whose body cannot be read as what it should be.
type errBody struct{ err error }

func (e errBody) Error() string { return e.err.Error() }

// problem is the answer to a refused call, in the shapes of the real API.
func problem(err error) (int, any) {
	var bad errBody
	if errors.As(err, &bad) {
		return http.StatusUnprocessableEntity, validation("", bad.Error())
	}
	var e *cloud.Error
	if !errors.As(err, &e) {
		return http.StatusInternalServerError, map[string]any{"detail": "Internal server error"}
	}
	switch e.Kind {
	case cloud.NotFound:
		return http.StatusNotFound, map[string]any{"detail": e.Message}
	case cloud.Busy:
		// Without error_code: this is what tells "try again" from "never".
		return http.StatusConflict, map[string]any{"detail": e.Message}
	case cloud.Conflict:
		return http.StatusConflict, coded("ERR-03-007", e.Message)
	case cloud.Ambiguous:
		return http.StatusBadRequest, coded("ERR-03-002", e.Message)
	case cloud.BadCompose:
		return http.StatusBadRequest, coded("ERR-01-003", e.Message)
	case cloud.NoRoom:
		return http.StatusBadRequest, coded("ERR-02-005", e.Message)
	case cloud.NoImage:
		return http.StatusBadRequest, coded("ERR-02-010", e.Message)
	case cloud.BadField:
		return http.StatusUnprocessableEntity, validation(e.Field, e.Message)
	default: // NameTaken, Incompatible, BadState
		return http.StatusBadRequest, map[string]any{"detail": e.Message}
	}
}

func coded(code, message string) map[string]any {
	return map[string]any{
		"error_code": code, "message": message, "request_id": uuid.NewString(), "details": []any{}, "suggestions": []any{}, "links": []any{},
	}
}

func validation(field, message string) map[string]any {
	loc := []string{"body"}
	if field != "" {
		loc = append(loc, field)
	}
	return map[string]any{"detail": []any{map[string]any{"loc": loc, "msg": message, "type": "value_error"}}}
}

// decode reads a JSON body; an empty one leaves v as it is. Unknown fields are
// ignored, as the real server does.
func decode(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return errBody{err}
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return errBody{err}
	}
	return nil
}

func timeOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
