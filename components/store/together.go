package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"
)

const (
	// MaxTogether is how many keys and prefixes can be read at one moment.
	MaxTogether = 64
	// maxTogetherBytes bounds the answer: far above the records of the largest cluster.
	maxTogetherBytes = 1 << 30
)

// ValidateTogether rejects arguments that must not reach any store: ErrBadOp or ErrBadKey. Every
// implementation of Store calls it first.
func ValidateTogether(what []string) error {
	if len(what) == 0 || len(what) > MaxTogether {
		return fmt.Errorf("%w: %d keys and prefixes, want 1 to %d", ErrBadOp, len(what), MaxTogether)
	}
	for _, w := range what {
		check := CheckKey
		if prefix, is := strings.CutSuffix(w, Below); is {
			w, check = prefix, CheckPrefix
			if prefix == "" {
				return fmt.Errorf("%w: an empty prefix must be listed instead", ErrBadOp)
			}
		}
		if err := check(w); err != nil {
			return err
		}
	}
	return nil
}

// Below at the end of an argument of Together makes it a prefix.
const Below = "*"

// SortTogether sorts the entries and keeps each key once.
func SortTogether(entries []Entry) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(entries, func(a, b Entry) bool { return a.Key == b.Key })
}

// Together is a read-only transaction: Consul answers it from one state, confirmed by a quorum, and
// writes nothing into its log.
func (c *Consul) Together(ctx context.Context, what ...string) ([]Entry, error) {
	if err := ValidateTogether(what); err != nil {
		return nil, err
	}
	ops := make(api.TxnOps, 0, len(what))
	for _, w := range what {
		op := &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: c.cfg.Prefix + w}
		if prefix, is := strings.CutSuffix(w, Below); is {
			op.Verb, op.Key = api.KVGetTree, c.cfg.Prefix+prefix
		}
		ops = append(ops, &api.TxnOp{KV: op})
	}
	answer, err := c.readTxn(ctx, ops)
	if err != nil {
		return nil, fmt.Errorf("read together: %w", err)
	}
	entries := make([]Entry, 0, len(answer.Results))
	for _, result := range answer.Results {
		// An absent key has no index; a directory marker, as web UIs write it, is no record.
		if pair := result.KV; pair != nil && pair.ModifyIndex != 0 && !strings.HasSuffix(pair.Key, "/") {
			entries = append(entries, c.entry(pair))
		}
	}
	return SortTogether(entries), nil
}

// readAnswer is Consul's answer to a read-only transaction. The API client drops the flag for
// results that the ACL filtered.
type readAnswer struct {
	Results               []struct{ KV *api.KVPair }
	Errors                api.TxnErrors
	ResultsFilteredByACLs bool
}

func (c *Consul) readTxn(ctx context.Context, ops api.TxnOps) (*readAnswer, error) {
	ctx, cancel := c.longCall(ctx)
	defer cancel()
	body, err := json.Marshal(ops)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.base+"/v1/txn?consistent", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.cfg.Token != "" {
		request.Header.Set("X-Consul-Token", c.cfg.Token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, notRead(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusConflict {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4*kib)) // for the error text
		return nil, classed(api.StatusError{Code: response.StatusCode, Body: string(text)})
	}
	answer := &readAnswer{}
	limited := &io.LimitedReader{R: response.Body, N: maxTogetherBytes}
	if err := json.NewDecoder(limited).Decode(answer); err != nil {
		if limited.N <= 0 {
			return nil, fmt.Errorf("%w: the answer has more than %d bytes", ErrTooLarge, maxTogetherBytes)
		}
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	switch {
	case len(answer.Errors) > 0 && strings.Contains(answer.Errors[0].What, "Permission denied"):
		return nil, denied(errors.New(answer.Errors[0].What))
	case len(answer.Errors) > 0:
		return nil, errors.New(answer.Errors[0].What)
	case answer.ResultsFilteredByACLs:
		// An incomplete answer would mean "these records do not exist".
		return nil, fmt.Errorf("%w: the token may not read all of it", ErrDenied)
	}
	return answer, nil
}
