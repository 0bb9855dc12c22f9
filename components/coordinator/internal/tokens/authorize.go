package tokens

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"cadre.dev/store"
)

// MayWrite asks Consul whether a token may write a KV key.
func (i *Issuer) MayWrite(ctx context.Context, token, key string) (may bool, err error) {
	err = CaughtUp(ctx, func() error { may, err = i.mayWrite(ctx, token, key); return err })
	return may, err
}

func (i *Issuer) mayWrite(ctx context.Context, token, key string) (bool, error) {
	body, err := json.Marshal([]map[string]string{{"Resource": "key", "Segment": key, "Access": "write"}})
	if err != nil {
		return false, fmt.Errorf("encode authorization request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+i.address+"/v1/internal/acl/authorize", bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("make authorization request: %w", err)
	}
	req.Header.Set("X-Consul-Token", token)
	resp, err := i.http.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask consul about a token: %w: %w", store.ErrUnavailable, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return false, fmt.Errorf("read authorization answer: %w", err)
	}
	if resp.StatusCode == http.StatusForbidden {
		return false, i.confirmRefusal(ctx, token)
	}
	var answers []struct{ Allow bool }
	if resp.StatusCode != http.StatusOK || json.Unmarshal(raw, &answers) != nil || len(answers) != 1 {
		return false, fmt.Errorf("ask consul about a token: status %d: %.200s", resp.StatusCode, raw)
	}
	return answers[0].Allow, nil
}

// confirmRefusal returns nil if the token does not exist. Otherwise the refusal came from a server
// that has not read its log yet, most often our own, and the result is ErrNotCaughtUp.
func (i *Issuer) confirmRefusal(ctx context.Context, token string) error {
	_, err := i.NameOf(ctx, token)
	switch {
	case err == nil:
		return ErrNotCaughtUp
	case errors.Is(err, ErrDenied):
		return nil
	}
	return err
}
