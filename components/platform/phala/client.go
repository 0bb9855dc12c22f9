package phala

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/platform"
)

// DefaultBaseURL is Phala Cloud's public API.
const DefaultBaseURL = "https://cloud-api.phala.com/api/v1"

// APIVersion is sent with each request; later versions have other shapes.
const APIVersion = "2026-05-22"

// DefaultSettle bounds the time from an accepted change until this platform shows it. A CVM reads
// "running" and unchanged for a while after the 202, and lists may lag for seconds behind one
// object. The platform's own tools wait ten minutes for a change, nearly all of it for the boot,
// which shows.
const DefaultSettle = 2 * time.Minute

// LocalSettle is the same for a local cloud, which shows an accepted change at once unless a test
// hides it for a while.
const LocalSettle = 5 * time.Second

// Config says how to reach the platform.
type Config struct {
	// BaseURL of the API, with its path prefix; empty: DefaultBaseURL. Credentials
	// in it are refused. A plain http URL is accepted, since the local cloud is
	// reached over a private link.
	BaseURL string
	// APIKey is sent as X-API-Key and appears in no error or log.
	APIKey string
	// HTTPClient is copied; its CheckRedirect is replaced, since a redirect would
	// carry the API key to another host. nil: a client of its own.
	HTTPClient *http.Client
	// Log receives retries; nil discards.
	Log *slog.Logger
	// CallTimeout bounds one request, default 10 s: a new leader waits out this
	// long before its own first effect (R62).
	CallTimeout time.Duration
	// ReadAttempts of one read, default 4; ReadBackoff is the first pause, doubled
	// each time up to 20 s, default 1 s.
	ReadAttempts int
	ReadBackoff  time.Duration
	// Settle is how long after a call its effect may still be hidden; default
	// DefaultSettle, and LocalSettle for a plain http URL.
	Settle time.Duration
	// KeyService returns the public key (compressed secp256k1) of the service whose
	// signature over an app's env key counts. The platform's word about that
	// signature is asked for before env is sealed, and a signature by anyone else
	// is refused. nil: the platform's key is taken as it comes.
	KeyService func(context.Context) ([]byte, error)
	// ShutdownTimeout is how long a guest may take to shut down when its image or size
	// changes, before the platform stops it hard; MinShutdownTimeout to MaxShutdownTimeout.
	// 0: the platform waits for as long as it takes.
	ShutdownTimeout time.Duration
}

// Client is a platform.Platform. Safe for concurrent use.
type Client struct {
	base     string
	key      string
	http     *http.Client
	log      *slog.Logger
	timeout  time.Duration
	attempts int
	backoff  time.Duration
	settle   time.Duration
	// keyService is Config.KeyService, or nil.
	keyService func(context.Context) ([]byte, error)

	// creating serialises creates; a channel so that waiting honours ctx.
	creating chan struct{}
	noBatch  atomic.Bool // the server has no /status/batch
	noPatch  atomic.Bool // the server has no PATCH /cvms/{cvm}
	shutdown time.Duration

	mu         sync.Mutex      // guards the fields below
	quietUntil time.Time       // the account is throttled until then (R73)
	knownSizes map[string]size // of instance types; nil until they were read
}

var _ platform.Platform = (*Client)(nil)

// New checks cfg and returns a Client. It makes no request.
func New(cfg Config) (*Client, error) {
	base := cfg.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("platform base url: %w", err)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("platform base url %q: scheme must be https (or http for a local cloud)", base)
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("platform base url %q: want scheme://host[:port]/path and nothing else", u.Redacted())
	}
	if cfg.APIKey == "" {
		return nil, errors.New("platform api key is empty: set it in the environment variable that the configuration names")
	}
	if strings.ContainsAny(cfg.APIKey, "\r\n") {
		return nil, errors.New("platform api key contains a line break: remove it")
	}
	if d := cfg.ShutdownTimeout; d != 0 && (d < MinShutdownTimeout || d > MaxShutdownTimeout) {
		return nil, fmt.Errorf("platform shutdown timeout is %s: the platform takes %s to %s", d, MinShutdownTimeout, MaxShutdownTimeout)
	}
	c := &Client{
		base: strings.TrimRight(base, "/"), key: cfg.APIKey, log: cfg.Log,
		timeout: cfg.CallTimeout, attempts: cfg.ReadAttempts, backoff: cfg.ReadBackoff, settle: cfg.Settle,
		keyService: cfg.KeyService, shutdown: cfg.ShutdownTimeout,
		creating: make(chan struct{}, 1),
	}
	httpClient := http.Client{}
	if cfg.HTTPClient != nil {
		httpClient = *cfg.HTTPClient
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &httpClient
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.timeout <= 0 {
		c.timeout = 10 * time.Second
	}
	if c.attempts <= 0 {
		c.attempts = 4
	}
	if c.backoff <= 0 {
		c.backoff = time.Second
	}
	if c.settle <= 0 {
		c.settle = DefaultSettle
		if u.Scheme == "http" {
			c.settle = LocalSettle
		}
	}
	return c, nil
}

// Habits implements platform.Platform.
func (c *Client) Habits() platform.Habits { return platform.Habits{Settle: c.settle} }
