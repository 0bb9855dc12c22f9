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
	// MaxTogether is how many keys and prefixes are read at one moment.
	MaxTogether = 64
	// maxTogetherBytes bounds the answer: far more than the records of the largest cluster.
	maxTogetherBytes = 1 << 30
)

// ValidateTogether refuses what must not reach any store: ErrBadOp or ErrBadKey. Every
// implementation of Store calls it first.
func ValidateTogether(what []string) error {
	if len(what) == 0 || len(what) > MaxTogether {
		return fmt.Errorf("%w: %d keys and prefixes are read together: 1 to %d are", ErrBadOp, len(what), MaxTogether)
	}
	for _, w := range what {
		check := CheckKey
		if prefix, is := strings.CutSuffix(w, Below); is {
			w, check = prefix, CheckPrefix
			if prefix == "" {
				return fmt.Errorf("%w: everything is listed, not read together with something", ErrBadOp)
			}
		}
		if err := check(w); err != nil {
			return err
		}
	}
	return nil
}

// Below at the end of what Together is to read makes a prefix of it.
const Below = "*"

// SortTogether puts what was read in order, each key once.
func SortTogether(entries []Entry) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(entries, func(a, b Entry) bool { return a.Key == b.Key })
}

// Together is a transaction that only reads: Consul answers it from one state, confirmed
// by a quorum, and writes nothing into its log.
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

// readAnswer is Consul's answer to a transaction that only reads. The API client drops
// whether results were left out.
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
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4*kib)) // for people
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
		// An answer with holes would read as "these records do not exist".
		return nil, fmt.Errorf("%w: the token may not read all of it", ErrDenied)
	}
	return answer, nil
}
