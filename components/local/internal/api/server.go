package api

import (
	"cmp"
	"crypto/ecdh"
	"crypto/subtle"
	"encoding/json"
	"errors"
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

// Config configures the API.
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
	// SlowRegistry makes the guests' pulls of images wait, or lets them end; Registry says as
	// JSON-able data whether they wait, and which CVMs do.
	SlowRegistry func(slow bool)
	Registry     func() any
	// Gateway returns the gateway's counters as JSON-able data.
	Gateway func() any
	// ContainerImages lists the images of the cloud's registry, as JSON-able data; nil when it has
	// none.
	ContainerImages func() any
	// Networks are the CVMs' connections; nil answers that there are none.
	Networks Networks
	// Rendezvous describes the cloud's rendezvous and switches it; nil when there is none.
	Rendezvous Rendezvous
	// PCCS serves the simulated manufacturer's collateral to every client, like a caching service;
	// nil serves none.
	PCCS *attestsim.PCCS
	// Hosts serves /_local/hosts of a cloud whose front is that of dstack-vmm's hosts; nil: the front
	// is Phala's API.
	Hosts http.Handler
	// Faults and Calls are shared with the fronts of hosts; nil: its own.
	Faults *fault.Injector
	Calls  *fault.Log
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
	return &Server{cfg: cfg, faults: cmp.Or(cfg.Faults, &fault.Injector{}), calls: cmp.Or(cfg.Calls, &fault.Log{})}
}

// Public is the API that operators and CVMs reach. Of a cloud of hosts it is the manufacturer's
// collateral alone.
func (s *Server) Public() http.Handler {
	mux := http.NewServeMux()
	absent := "Not Found"
	if s.cfg.Hosts == nil {
		s.phala(mux)
	} else {
		absent = "this cloud speaks the RPC of dstack-vmm: api_url of cloud.json names the endpoint of each host"
	}
	// Clients show the text of an error, so an unserved path answers in JSON.
	mux.Handle("/", s.wrap(func(*http.Request) (int, any, error) {
		return http.StatusNotFound, map[string]any{"detail": absent}, nil
	}))
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

// phala adds the calls of Phala Cloud.
func (s *Server) phala(mux *http.ServeMux) {
	const v1 = "/api/v1"
	for pattern, h := range map[string]handler{
		"GET /auth/me":                              s.me,
		"GET /workspaces":                           s.workspaces,
		"GET /workspaces/{slug}":                    s.workspace,
		"GET /workspaces/{slug}/nodes":              s.workspaceNodes,
		"GET /workspaces/{slug}/quotas":             s.workspaceQuotas,
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
		"GET /cvms/{cvm}/operations":                s.operations,
		"GET /cvms/{cvm}/state":                     s.state,
		"GET /cvms/{cvm}/compose_file":              s.getCompose,
		"POST /cvms/{cvm}/compose_file/provision":   s.provisionUpdate,
		"PATCH /cvms/{cvm}/compose_file":            s.patchCompose,
		"PATCH /cvms/{cvm}/envs":                    s.patchEnvs,
		"PATCH /cvms/{cvm}/os-image":                s.patchImage,
		"PATCH /cvms/{cvm}/resources":               s.patchResources,
		"PATCH /cvms/{cvm}/name":                    s.patchName,
		"PATCH /cvms/{cvm}":                         s.patchCVM,
		"PATCH /cvms/{cvm}/docker-compose":          s.patchDockerCompose,
		"PATCH /cvms/{cvm}/pre-launch-script":       s.patchScript,
		"PATCH /cvms/{cvm}/visibility":              s.patchVisibility,
		"PATCH /cvms/{cvm}/instance-id":             s.refreshInstanceID,
		"POST /cvms/{cvm}/replicas":                 s.replicate,
		"GET /cvms/{cvm}/docker-compose.yml":        s.composeText,
		"GET /cvms/{cvm}/pre-launch-script":         s.scriptText,
		"GET /cvms/{cvm}/network":                   s.network,
		"GET /cvms/{cvm}/user_config":               s.userConfig,
		"GET /cvms/{cvm}/available-os-images":       s.imagesFor,
		"GET /apps/{app}/device-allowlist":          s.deviceAllowlist,
		"GET /kms":                                  s.kmsList,
		"GET /kms/{kms}":                            s.kmsInfo,
		"GET /kms/{kms}/nodes":                      s.kmsNodes,
		"GET /user/ssh-keys":                        s.sshKeys,
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
}

// Host is Public plus /_local/, for the host only.
func (s *Server) Host() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.Public())
	mux.Handle("/_local/", s.front(s.local()))
	return mux
}

// front carries out the checks of every request: request id, size, key.
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

// problem is the answer to a refused call, in the shapes of the real API.
func problem(err error) (int, any) {
	var bad errFields
	if errors.As(err, &bad) {
		return http.StatusUnprocessableEntity, map[string]any{"detail": bad}
	}
	var e *cloud.Error
	if !errors.As(err, &e) {
		return http.StatusInternalServerError, map[string]any{"detail": "Internal server error"}
	}
	switch e.Kind {
	case cloud.NotFound:
		return http.StatusNotFound, map[string]any{"detail": e.Message}
	case cloud.Busy:
		// Without error_code: clients distinguish "try again" from "never" by it.
		return http.StatusConflict, map[string]any{"detail": e.Message}
	case cloud.Conflict:
		return http.StatusConflict, coded("ERR-03-007", e.Message)
	case cloud.Suspended:
		return http.StatusForbidden, map[string]any{"detail": e.Message}
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
	return map[string]any{"detail": badBody("value_error", message, field)}
}

func timeOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
