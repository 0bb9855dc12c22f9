package vmmapi

import (
	"bytes"
	"crypto/ecdh"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fault"
)

// maxBody is the limit of the real server.
const maxBody = 10 << 20

// Config configures the endpoints.
type Config struct {
	Cloud *cloud.Cloud
	// Hosts are the names of the hosts, as in the Cloud's configuration.
	Hosts []string
	// Token guards every call; empty: none does.
	Token string
	// Domain is the gateway's base domain.
	Domain string
	// Images names the OS images on offer.
	Images []string
	// EnvKey is an app's key for encrypted environments; SignEnvKey signs its public half as the
	// KMS does.
	EnvKey     func(appID string) (*ecdh.PrivateKey, error)
	SignEnvKey func(appID string, timestamp uint64) (legacy, v1 []byte, err error)
	// Faults and Calls are shared with the calls below /_local.
	Faults *fault.Injector
	Calls  *fault.Log
	// LogDir gives the directory of a VM's logs.
	LogDir func(id string) string
	Log    *slog.Logger
}

// Server answers for all hosts. Safe for concurrent use.
type Server struct {
	cfg   Config
	doors map[string]*door // by host
}

// New makes a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, doors: map[string]*door{}}
	for _, host := range cfg.Hosts {
		s.doors[host] = newDoor()
	}
	return s
}

// Host is the endpoint of one host.
func (s *Server) Host(host string) http.Handler {
	e := &endpoint{Server: s, host: host}
	mux := http.NewServeMux()
	mux.HandleFunc("/prpc/{method}", e.rpc)
	mux.HandleFunc("POST /guest/{method}", e.guest)
	mux.HandleFunc("GET /logs", e.logs)
	return s.doors[host].wrap(e.front(fault.WrapHost(mux, s.cfg.Faults, s.cfg.Calls, e.about, host)))
}

// endpoint serves one host.
type endpoint struct {
	*Server
	host string
}

// front carries out the checks of every request: size and token.
func (e *endpoint) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-App-Version", e.cfg.Cloud.VMMVersion())
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if !e.authorised(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="dstack-vmm"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (e *endpoint) authorised(r *http.Request) bool {
	if e.cfg.Token == "" {
		return true
	}
	same := func(token string) bool { return subtle.ConstantTimeCompare([]byte(token), []byte(e.cfg.Token)) == 1 }
	if token := r.Header.Get("X-Admin-Token"); token != "" && same(token) {
		return true
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return same(strings.TrimSpace(token))
	}
	user, password, ok := r.BasicAuth()
	return ok && (same(password) || password == "" && same(user))
}

// call answers one method; its result is the JSON of the answer.
type call func(e *endpoint, body []byte) (any, error)

var calls = map[string]call{
	"Status":                 take((*endpoint).status),
	"GetInfo":                take((*endpoint).getInfo),
	"CreateVm":               take((*endpoint).createVM),
	"UpdateVm":               take((*endpoint).updateVM),
	"UpgradeApp":             take((*endpoint).updateVM),
	"ResizeVm":               take((*endpoint).resizeVM),
	"StartVm":                onVM((*cloud.Cloud).StartVM),
	"StopVm":                 onVM((*cloud.Cloud).StopVM),
	"ShutdownVm":             onVM((*cloud.Cloud).ShutdownVM),
	"RemoveVm":               onVM((*cloud.Cloud).RemoveVM),
	"GetComposeHash":         take((*endpoint).composeHash),
	"GetAppEnvEncryptPubKey": take((*endpoint).envKey),
	"GetMeta":                bare((*endpoint).meta),
	"Version":                bare((*endpoint).version),
	"ListImages":             bare((*endpoint).images),
	"ListGpus":               bare((*endpoint).gpus),
	"ReloadVms":              bare((*endpoint).reload),
}

// take reads a request of type T.
func take[T any](answer func(*endpoint, T) (any, error)) call {
	return func(e *endpoint, body []byte) (any, error) {
		var request T
		if err := decode(body, &request); err != nil {
			return nil, err
		}
		return answer(e, request)
	}
}

// bare is a method without a request.
func bare(answer func(*endpoint) (any, error)) call {
	return func(e *endpoint, _ []byte) (any, error) { return answer(e) }
}

// onVM is a method about a VM with an empty answer.
func onVM(act func(c *cloud.Cloud, host, id string) error) call {
	return take(func(e *endpoint, request vmID) (any, error) {
		return nil, act(e.cfg.Cloud, e.host, request.ID)
	})
}

func (e *endpoint) rpc(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("method")
	method, ok := calls[strings.TrimPrefix(name, "Teepod.")] // the service's earlier name
	if !ok {
		refuse(w, fmt.Errorf("Service not found: %s", name)) //nolint:staticcheck // the text of the real server
		return
	}
	e.serve(w, r, method)
}

// serve answers a call in JSON. The real server also speaks protobuf.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request, method call) {
	if !isJSON(r) {
		refuse(w, errors.New("the local cloud speaks JSON only: add ?json to the path"))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, errors.New("failed to read data: payload too large"))
		return
	}
	answer, err := method(e, body)
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, answer)
}

// about names the VM that a call is about, for faults and the log of calls. It reads the body and
// puts the body back.
func (e *endpoint) about(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	rest := io.Reader(bytes.NewReader(body))
	if err != nil {
		rest = io.MultiReader(rest, failing{err})
	}
	r.Body = io.NopCloser(rest)
	var request struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	if json.Unmarshal(body, &request) != nil {
		return ""
	}
	if info, ok := e.cfg.Cloud.VMInfo(e.host, request.ID); ok {
		return info.Name
	}
	return request.Name
}

// failing is the end of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func isJSON(r *http.Request) bool {
	if r.Method == http.MethodGet || strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return true
	}
	q := r.URL.Query()
	return q.Has("json") && slices.Contains([]string{"", "1", "true"}, q.Get("json"))
}

func refuse(w http.ResponseWriter, err error) {
	write(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body)
}
