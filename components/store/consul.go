package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// DefaultPrefix is the prefix of all records in Consul KV.
const DefaultPrefix = "cadre/v1/"

// ConsulConfig of a Consul. Only Address is required.
type ConsulConfig struct {
	// Address of the agent's HTTP API: "127.0.0.1:8500", or with http:// or https://.
	Address string
	// Token is the ACL token; empty where Consul runs without ACLs.
	Token string
	// Prefix of all keys; default DefaultPrefix. Ends with "/".
	Prefix string
	// SessionTTL of the Lease; default 10s, the minimum of Consul unless its session_ttl_min
	// differs.
	SessionTTL time.Duration
	// Margin is subtracted from the Lease's local deadline: the longest single call that a holder
	// makes after it checked the deadline. Default a fifth of SessionTTL.
	Margin time.Duration
	// Resync is the maximum time that Watch blocks; default 60s, at most 10m.
	Resync time.Duration
	// CallTimeout bounds every call except Watch; default 10s.
	CallTimeout time.Duration
	// Transport carries the requests; nil: a pooled one without proxies.
	Transport http.RoundTripper
}

// Consul is the Store in Consul's KV. Safe for concurrent use.
type Consul struct {
	// Constant after NewConsul.
	cfg    ConsulConfig
	client *api.Client
	// base and http serve requests that the API client does not support.
	base string
	http *http.Client
	pool *http.Transport
	// node of the catalog that all sessions of this store are on.
	node string

	mu sync.Mutex
	// leases that this process acquired, by session, so that a write whose fence fails ends the
	// right one at once.
	leases map[string]*consulLease
	// maxTerm is the highest Term that this process has seen.
	maxTerm uint64
	// holder is the name under which this process last took the Lease.
	holder string
}

var _ Store = (*Consul)(nil)

// NewConsul makes the client; it does not connect.
func NewConsul(cfg ConsulConfig) (*Consul, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	c := &Consul{cfg: cfg, node: leaseNode(cfg.Token), leases: make(map[string]*consulLease)}
	transport := cfg.Transport
	if transport == nil {
		c.pool = newPool()
		transport = c.pool
	}
	scheme, address := "http", cfg.Address
	if s, rest, found := strings.Cut(cfg.Address, "://"); found {
		scheme, address = s, rest
	}
	c.base, c.http = scheme+"://"+address, &http.Client{Transport: transport}
	client, err := api.NewClient(&api.Config{
		Address: address, Scheme: scheme, Token: cfg.Token,
		HttpClient: &http.Client{Transport: statusRecorder{transport}},
	})
	if err != nil {
		return nil, fmt.Errorf("make the consul client: %w", err)
	}
	c.client = client
	return c, nil
}

func (cfg *ConsulConfig) complete() error {
	var problems []error
	if cfg.Address == "" {
		problems = append(problems, errors.New("address is empty: name consul's HTTP address, e.g. 127.0.0.1:8500"))
	}
	if scheme, _, found := strings.Cut(cfg.Address, "://"); found && scheme != "http" && scheme != "https" {
		problems = append(problems, fmt.Errorf("address %q: the scheme is http or https", cfg.Address))
	}
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if err := CheckPrefix(cfg.Prefix); err != nil || !strings.HasSuffix(cfg.Prefix, "/") {
		problems = append(problems, fmt.Errorf("prefix %q: a clean path that ends with \"/\"", cfg.Prefix))
	}
	setDefault(&cfg.SessionTTL, 10*time.Second)
	setDefault(&cfg.Margin, cfg.SessionTTL/5)
	setDefault(&cfg.Resync, time.Minute)
	setDefault(&cfg.CallTimeout, 10*time.Second)
	if cfg.SessionTTL < 0 || cfg.Margin < 0 || cfg.Margin > cfg.SessionTTL/2 {
		problems = append(problems, fmt.Errorf("session TTL %v with margin %v: the margin must be between 0 and half the TTL, so that time is left to act",
			cfg.SessionTTL, cfg.Margin))
	}
	if cfg.Resync < 0 || cfg.Resync > 10*time.Minute {
		problems = append(problems, fmt.Errorf("resync %v: between 0 and 10m, which is consul's bound", cfg.Resync))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("consul store: %w", err)
	}
	return nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// newPool returns a transport of our own: the default one would send control-plane traffic through
// a proxy that an environment variable names. Consul is on the same machine, where compression
// costs both ends more than it saves.
func newPool() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, DisableCompression: true}
}

// Close frees idle connections. Leases are not touched.
func (c *Consul) Close() {
	if c.pool != nil {
		c.pool.CloseIdleConnections()
	}
}

// Get reads one key through the Raft leader.
func (c *Consul) Get(ctx context.Context, key string) (Entry, error) {
	pair, err := c.get(ctx, key)
	if err != nil {
		return Entry{}, err
	}
	if pair == nil {
		return Entry{}, fmt.Errorf("read %s: %w", key, ErrNotFound)
	}
	return c.entry(pair), nil
}

// get returns nil for an absent key.
func (c *Consul) get(ctx context.Context, key string) (*api.KVPair, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	ctx, cancel := c.call(ctx)
	defer cancel()
	pair, _, err := c.client.KV().Get(c.cfg.Prefix+key, consistent(ctx))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, notRead(err))
	}
	return pair, nil
}

// List reads everything below prefix through the Raft leader. Consul sorts by key.
func (c *Consul) List(ctx context.Context, prefix string) ([]Entry, uint64, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, 0, err
	}
	ctx, cancel := c.call(ctx)
	defer cancel()
	pairs, meta, err := c.client.KV().List(c.cfg.Prefix+prefix, consistent(ctx))
	if err != nil {
		return nil, 0, fmt.Errorf("list %s: %w", prefix, notRead(err))
	}
	if meta.ResultsFilteredByACLs {
		// An incomplete list would mean "these records do not exist".
		return nil, 0, fmt.Errorf("list %s: %w: the token may not read all of it", prefix, ErrDenied)
	}
	entries := make([]Entry, 0, len(pairs))
	for _, pair := range pairs {
		// A directory marker, as web UIs write it, is not a record.
		if strings.HasSuffix(pair.Key, "/") {
			continue
		}
		entries = append(entries, c.entry(pair))
	}
	return entries, meta.LastIndex, nil
}

func (c *Consul) entry(pair *api.KVPair) Entry {
	return Entry{Key: strings.TrimPrefix(pair.Key, c.cfg.Prefix), Value: pair.Value, Index: pair.ModifyIndex, Session: pair.Session}
}

func (c *Consul) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.cfg.CallTimeout, fmt.Errorf("consul did not answer in %v", c.cfg.CallTimeout))
}

// longCall bounds a read of many records. On a busy machine a server that has just started needs
// longer for thousands of records than for one. A shorter limit would make the caller start again
// each time.
func (c *Consul) longCall(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := 3 * c.cfg.CallTimeout
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("consul did not answer in %v", limit))
}

// consistent reads are confirmed by a quorum: a deposed Raft leader in a minority cannot answer
// them (F22).
func consistent(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

// denied marks a refusal by the ACL system, and distinguishes an unknown token.
func denied(err error) error {
	if strings.Contains(err.Error(), "ACL not found") {
		return fmt.Errorf("%w: %w: %w", ErrDenied, ErrTokenUnknown, err)
	}
	return fmt.Errorf("%w: %w", ErrDenied, err)
}

// notRead is classed for a read, and also marks a missing answer as ErrUnavailable. A server
// forwards a read to its leader, so after the loss of that leader's machine it does not answer for
// seconds.
func notRead(err error) error {
	if _, unanswered := errors.AsType[*url.Error](err); unanswered && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return classed(err)
}

// classed marks a refusal by the ACL system as ErrDenied, and a server's own failure, for example
// between two leaders, as ErrUnavailable.
func classed(err error) error {
	status, ok := errors.AsType[api.StatusError](err)
	switch {
	case !ok:
		return err
	case status.Code == http.StatusForbidden:
		return denied(err)
	case status.Code >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
