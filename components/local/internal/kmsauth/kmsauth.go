package kmsauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cadre.dev/attest/attestsim"
)

// Timeout is how long a guest waits for its keys.
const Timeout = time.Minute

// maxAnswer bounds the answer of a webhook.
const maxAnswer = 1 << 20

// CheckURL refuses a base URL that cannot be that of a webhook; empty is none.
func CheckURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%.200q is not the base URL of a webhook: give one such as http://127.0.0.1:8000, below which bootAuth/app answers", base)
	}
	return nil
}

// Ask asks the webhook at base whether a guest may have its keys. nil is permission; every other
// outcome is the boot error of the guest. It takes at most as long as ctx and Timeout.
func Ask(ctx context.Context, base string, request attestsim.KeyRequest) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	err := ask(ctx, strings.TrimSuffix(base, "/")+"/bootAuth/app", request)
	if err == nil {
		return nil
	}
	const asking = "Failed to request app keys: Failed to get app keys from KMS: Failed to get app key: "
	if ctx.Err() != nil {
		return errors.New(asking + "Failed to send request: operation timed out") //nolint:staticcheck // the text of the guest
	}
	body, marshalErr := json.MarshalIndent(map[string]string{"error": "App not allowed: " + err.Error()}, "", "  ")
	if marshalErr != nil {
		return marshalErr
	}
	return fmt.Errorf("%sRequest failed with status=400 Bad Request, error=%s", asking, body)
}

func ask(ctx context.Context, address string, request attestsim.KeyRequest) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dstack-kms/0.5.11")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("error sending request for url (%s): %w", address, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("error decoding response body: %w", err)
	}
	short := body[:min(len(body), 512)]
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("auth api %s returned %s: %s", address, resp.Status, short)
	}
	if err := judge(body); err != nil {
		var denied denial
		if errors.As(err, &denied) {
			return err
		}
		return fmt.Errorf("failed to decode response from %s, status=%s, body=%s: %w", address, resp.Status, short, err)
	}
	return nil
}

// denial is the reason of a webhook that refuses.
type denial string

func (d denial) Error() string { return "Boot denied: " + string(d) }

// judge reads an answer, which needs all three fields.
func judge(body []byte) error {
	var answer struct {
		IsAllowed    *bool   `json:"isAllowed"`
		GatewayAppID *string `json:"gatewayAppId"`
		Reason       *string `json:"reason"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	switch {
	case answer.IsAllowed == nil:
		return errors.New("missing field `isAllowed`")
	case answer.GatewayAppID == nil:
		return errors.New("missing field `gatewayAppId`")
	case answer.Reason == nil:
		return errors.New("missing field `reason`")
	case !*answer.IsAllowed:
		return denial(*answer.Reason)
	}
	return nil
}
