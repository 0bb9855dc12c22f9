package platformtest

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Key is the API key that a Fake accepts.
const Key = "phak_test"

// Fake is an in-memory cloud with the subset of Phala Cloud's REST API that driver phala uses. CVMs
// run nothing. Safe for concurrent use.
type Fake struct {
	// BootDelay is how long a create, update or restart stays in progress.
	BootDelay time.Duration
	// Hide is how long an accepted change of the hardware does not show. Set it with
	// SetHide once requests are made.
	Hide time.Duration

	private *ecdh.PrivateKey

	mu      sync.Mutex // guards all below
	cvms    []*fakeCVM
	known   map[string]composed // by compose hash: the provisioned content
	faults  []Fault
	log     []string
	nextID  int
	handler http.Handler
}

type composed struct {
	appID, name string
	revision    bool // usable by POST /apps/{app}/instances
	hardware    hardware
}

// hardware is the part of a CVM's virtual machine that can change in place.
type hardware struct {
	image, instanceType string
	diskGB              int
}

// The offer of a Fake.
var (
	fakeImages = []string{"dstack-0.5.9", "dstack-0.5.11"}
	fakeTypes  = []string{"tdx.small", "tdx.medium"}
)

// slug is the full name of an image, the only form that a change or a create takes.
func slug(image string) string { return image + "-" + digest("image", image)[:8] }

type fakeCVM struct {
	id, name, appID, uuid, instanceID, hash string
	status, target                          string
	until                                   time.Time
	next                                    string // status when until has passed
	gone                                    bool
	env                                     map[string]string
	hardware                                hardware
	was                                     fakeView  // the view until the operation shows
	shown                                   time.Time // when the running operation begins to show
}

// fakeView is the visible state before an operation shows.
type fakeView struct {
	status   string
	hardware hardware
}

// NewFake makes an empty cloud.
func NewFake() *Fake {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		// crypto/rand does not fail on supported systems; an unusable Fake shows at once.
		private = nil
	}
	f := &Fake{BootDelay: 30 * time.Millisecond, private: private, known: map[string]composed{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/apps/{app}/cvms", f.listApp)
	mux.HandleFunc("GET /api/v1/cvms/paginated", f.listAll)
	mux.HandleFunc("GET /api/v1/cvms/{cvm}", f.withCVM(func(c *fakeCVM, _ body) (int, any) { return 200, f.view(c) }))
	mux.HandleFunc("POST /api/v1/cvms/provision", f.provision)
	mux.HandleFunc("POST /api/v1/cvms", f.commit)
	mux.HandleFunc("POST /api/v1/apps/{app}/instances", f.addInstance)
	mux.HandleFunc("POST /api/v1/cvms/{cvm}/compose_file/provision", f.withCVM(f.provisionUpdate))
	mux.HandleFunc("PATCH /api/v1/cvms/{cvm}/compose_file", f.withCVM(f.update))
	mux.HandleFunc("PATCH /api/v1/cvms/{cvm}/os-image", f.withCVM(f.setImage))
	mux.HandleFunc("PATCH /api/v1/cvms/{cvm}/resources", f.withCVM(f.resize))
	mux.HandleFunc("PATCH /api/v1/cvms/{cvm}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusMethodNotAllowed, map[string]any{"detail": "Method Not Allowed"}) // as an older server
	})
	mux.HandleFunc("POST /api/v1/cvms/{cvm}/{verb}", f.power)
	mux.HandleFunc("DELETE /api/v1/cvms/{cvm}", f.withCVM(f.remove))
	mux.HandleFunc("GET /api/v1/teepods/available", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"nodes": []any{map[string]any{"teepod_id": 3, "name": "node-3", "remaining_cvm_slots": 9,
			"images": named("name", fakeImages)}}})
	})
	mux.HandleFunc("GET /api/v1/os-images", func(w http.ResponseWriter, _ *http.Request) {
		items := []any{}
		for _, name := range fakeImages {
			items = append(items, map[string]any{"name": name, "slug": slug(name)})
		}
		reply(w, 200, map[string]any{"items": items, "total": len(items), "page": 1, "page_size": 100, "pages": 1})
	})
	mux.HandleFunc("GET /api/v1/instance-types", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"items": named("id", fakeTypes), "total": len(fakeTypes)})
	})
	mux.HandleFunc("GET /api/v1/kms/phala/next_app_id", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"app_ids": []any{map[string]any{"app_id": randomHex(20), "nonce": 7}}})
	})
	f.handler = mux
	return f
}

// Serve starts an HTTP server for f and returns its base URL. stop ends it.
func (f *Fake) Serve() (baseURL string, stop func()) {
	srv := httptest.NewServer(f)
	return srv.URL + "/api/v1", srv.Close
}

func named(key string, names []string) []any {
	out := []any{}
	for _, name := range names {
		out = append(out, map[string]any{key: name})
	}
	return out
}

// SetHide is Hide from now on.
func (f *Fake) SetHide(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Hide = d
}

// Inject arms a fault.
func (f *Fake) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault.Times == 0 {
		fault.Times = 1
	}
	f.faults = append(f.faults, fault)
}

// Calls returns "METHOD path" of each request so far that had a body or an effect.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Env returns the decrypted env of the CVM called name; nil when there is none.
func (f *Fake) Env(name string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.cvms {
		if c.name == name && !c.gone {
			return c.env
		}
	}
	return nil
}

// ServeHTTP checks the headers, applies faults, then answers.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Request-ID", "req-"+randomHex(4))
	if r.Header.Get("X-API-Key") != Key {
		reply(w, 401, map[string]any{"detail": "Invalid API key"})
		return
	}
	if r.Header.Get("X-Phala-Version") == "" {
		reply(w, 400, map[string]any{"detail": "X-Phala-Version is missing"})
		return
	}
	if r.Method != http.MethodGet {
		f.mu.Lock()
		f.log = append(f.log, r.Method+" "+r.URL.Path)
		f.mu.Unlock()
	}
	mode := f.takeFault(r.Method, r.URL.Path)
	hidden := httptest.NewRecorder()
	switch mode {
	case Refuse:
		reply(w, 400, map[string]any{"error_code": "ERR-02-015", "message": "quota used up", "request_id": "req-x"})
	case Incompatible:
		reply(w, 400, map[string]any{"detail": "configuration parameters not compatible"})
	case Busy:
		reply(w, 409, map[string]any{"detail": "another operation is in progress"})
	case Throttle:
		w.Header().Set("Retry-After", "0")
		reply(w, 429, map[string]any{"detail": "slow down"})
	case ErrorBefore:
		http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
	case ErrorAfter:
		f.handler.ServeHTTP(hidden, r)
		reply(w, 500, map[string]any{"detail": "internal error"})
	case ResetBefore:
		hangUp(w)
	case ResetAfter:
		f.handler.ServeHTTP(hidden, r)
		hangUp(w)
	case OtherHash, OtherText, OwnText:
		reply(w, 200, Answers(mode, f.publicKey()))
	default:
		f.handler.ServeHTTP(w, r)
	}
}

func (f *Fake) takeFault(method, path string) Mode {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.faults {
		if f.faults[i].Times > 0 && f.faults[i].matches(method, path) {
			f.faults[i].Times--
			return f.faults[i].Mode
		}
	}
	return ""
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

type body map[string]any

func (b body) text(key string) string { s, _ := b[key].(string); return s }
func (b body) number(key string) int  { n, _ := b[key].(float64); return int(n) }

func readBody(r *http.Request) (body, error) {
	b := body{}
	if r.ContentLength == 0 {
		return b, nil
	}
	err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 4<<20)).Decode(&b)
	return b, err
}

func reply(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	if v != nil {
		if err := json.NewEncoder(&buf).Encode(v); err != nil {
			status = http.StatusInternalServerError
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes())
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

func (f *Fake) openEnv(b body) (map[string]string, error) {
	sealed := b.text("encrypted_env")
	if sealed == "" {
		return nil, nil
	}
	if f.private == nil {
		return nil, errors.New("no key")
	}
	return OpenEnv(f.private.Bytes(), sealed)
}

func (f *Fake) publicKey() string {
	if f.private == nil {
		return ""
	}
	return hex.EncodeToString(f.private.PublicKey().Bytes())
}

// newCVMLocked adds a CVM; the name is unique in the workspace, regardless of case.
func (f *Fake) newCVMLocked(name, appID, hash string, env map[string]string, hw hardware) (*fakeCVM, error) {
	for _, c := range f.cvms {
		f.settleLocked(c)
		if !c.gone && strings.EqualFold(c.name, name) {
			return nil, fmt.Errorf("CVM name %q is already in use in this workspace", name)
		}
	}
	f.nextID++
	u := randomHex(16)
	c := &fakeCVM{id: "cvm_" + strconv.Itoa(f.nextID), name: name, appID: appID, hash: hash, env: env, hardware: hw,
		uuid: u[:8] + "-" + u[8:12] + "-" + u[12:16] + "-" + u[16:20] + "-" + u[20:]}
	f.beginLocked(c, "starting", "running")
	f.cvms = append(f.cvms, c)
	return c, nil
}

func (f *Fake) beginLocked(c *fakeCVM, now, next string) {
	c.status, c.target, c.next, c.until = now, next, next, time.Now().Add(f.BootDelay)
	c.shown = time.Time{}
}

func (f *Fake) settleLocked(c *fakeCVM) {
	if c.target == "" || time.Now().Before(c.until) {
		return
	}
	c.status, c.target = c.next, ""
	if c.status == "running" && c.instanceID == "" {
		c.instanceID = digest("instance", c.uuid)[:40]
	}
	c.gone = c.status == "deleted"
}
