package vmm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"cadre.dev/platform"
)

// DefaultSettle bounds the time from an accepted call until a host shows its effect. A VMM shows its
// own writes at once; the time covers a call that still runs on the host after its answer was lost.
const DefaultSettle = 30 * time.Second

// Config says how to reach the hosts.
type Config struct {
	// Endpoints are the hosts, as of ParseEndpoints.
	Endpoints []Endpoint
	// Token is sent to every host as a bearer token, and appears in no error or log; empty: none is
	// sent. A VMM up to 0.5.11 does not ask for one: reach it by a socket or a private network.
	Token string
	// HTTPClient is copied for the hosts that are not behind a socket; its CheckRedirect is
	// replaced, since a redirect would carry the token to another host. nil: a client of its own.
	HTTPClient *http.Client
	// Log receives retries; nil discards.
	Log *slog.Logger
	// CallTimeout bounds one request, and all requests of a listing to one host; default 10 s.
	CallTimeout time.Duration
	// ReadAttempts of one read, default 3; ReadBackoff is the first pause, doubled each time,
	// default 500 ms.
	ReadAttempts int
	ReadBackoff  time.Duration
	// Poll is the pause between two looks at a CVM that stops, default 500 ms.
	Poll time.Duration
	// Settle is how long after a call its effect may still be hidden; default DefaultSettle.
	Settle time.Duration
	// ShutdownTimeout is how long a guest may take to shut down in Restart before it is stopped hard;
	// 0: as long as the caller waits.
	ShutdownTimeout time.Duration
	// KeyService returns the public key (compressed secp256k1) of the service whose signature over an
	// app's env key counts: env is sealed for a key with that signature only. nil: the host's key is
	// taken as it comes.
	KeyService func(context.Context) ([]byte, error)
}

// Client is a platform.Platform. Safe for concurrent use.
type Client struct {
	hosts      []*host // constant after New
	log        *slog.Logger
	token      string
	timeout    time.Duration
	attempts   int
	backoff    time.Duration
	poll       time.Duration
	settle     time.Duration
	shutdown   time.Duration
	keyService func(context.Context) ([]byte, error)

	// creating serialises creates; a channel so that waiting honours ctx.
	creating chan struct{}

	mu     sync.Mutex         // guards the fields below
	places map[string]*host   // where a CVM was last seen, by its id: a hint
	texts  texts              // provisioned documents, by hash
	images map[*host][]string // the images that a host listed last
}

var _ platform.Platform = (*Client)(nil)

// New checks cfg and returns a Client. It makes no request. The error names every problem.
func New(cfg Config) (*Client, error) {
	errs := check(cfg.Endpoints)
	if len(cfg.Endpoints) == 0 {
		errs = append(errs, errors.New("vmm endpoints are empty: name at least one host"))
	}
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		errs = append(errs, errors.New("the token has a space, a line break or a character that is not ASCII: remove it"))
	}
	if cfg.ShutdownTimeout < 0 {
		errs = append(errs, fmt.Errorf("shutdown timeout is %s: it cannot be negative", cfg.ShutdownTimeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c := &Client{
		log: cfg.Log, token: cfg.Token, keyService: cfg.KeyService, shutdown: cfg.ShutdownTimeout, attempts: cfg.ReadAttempts,
		timeout: positive(cfg.CallTimeout, 10*time.Second), backoff: positive(cfg.ReadBackoff, 500*time.Millisecond),
		poll: positive(cfg.Poll, 500*time.Millisecond), settle: positive(cfg.Settle, DefaultSettle),
		creating: make(chan struct{}, 1), places: map[string]*host{}, images: map[*host][]string{},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.attempts <= 0 {
		c.attempts = 3
	}
	for _, e := range cfg.Endpoints {
		h, err := c.newHost(e, cfg.HTTPClient)
		if err != nil {
			return nil, err
		}
		c.hosts = append(c.hosts, h)
	}
	return c, nil
}

func positive(d, instead time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return instead
}

func (c *Client) newHost(e Endpoint, given *http.Client) (*host, error) {
	h := &host{Endpoint: e, client: c, base: strings.TrimRight(e.URL, "/")}
	httpClient := http.Client{}
	if given != nil {
		httpClient = *given
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("vmm endpoint %q: its URL cannot be read", e.Name) // check passed: not reached
	}
	if u.Scheme == "unix" {
		socket := u.Path
		h.base = "http://vmm"
		httpClient.Transport = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
			IdleConnTimeout: 30 * time.Second,
		}
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	h.http = &httpClient
	return h, nil
}

// Habits implements platform.Platform.
func (c *Client) Habits() platform.Habits {
	return platform.Habits{Settle: c.settle, StopFirst: true}
}

// NextAppID draws an application id, so that a measured compose file can contain the id before the
// app exists. A key service takes any 20 bytes as an app that its authority allows; nothing is
// reserved, and the nonce is empty. Without a key service the id is that of the compose file, and a
// drawn one does not boot.
func (c *Client) NextAppID(context.Context) (appID, nonce string, err error) {
	raw := make([]byte, appIDSize)
	if _, err := rand.Read(raw); err != nil {
		return "", "", fmt.Errorf("draw an app id: %w", err)
	}
	return hex.EncodeToString(raw), "", nil
}
