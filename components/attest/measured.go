package attest

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson"
)

// CheckMeasured rejects, with CONFIG_UNAUTHENTICATED, a trust file that is not part of this CVM's
// measurement: its bytes must appear literally in a config of the measured compose file. Otherwise
// an attacker with access to a file, a flag or the environment could add a root (ATT-02, ATT-17).
//
// It rejects a process that another compose file started in the same way. mark is the value of
// --revision-mark: a container that the engine restored from an earlier boot has the mark of the
// earlier text (ATT-36).
//
// The compose hash must replay to this CVM's own quote. An error that is no *Error is
// the guest agent's: try again.
//
// It returns the measured compose text.
func CheckMeasured(ctx context.Context, guest Guest, trustFile []byte, mark string) (compose string, err error) {
	compose, err = checkMeasured(ctx, guest, trustFile)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Code == CodeEventLogInvalid {
		// Another container's event can come between the log and its register.
		compose, err = checkMeasured(ctx, guest, trustFile)
	}
	if refused, ok := errors.AsType[*Error](err); ok && refused.Code != policy.CodeConfigUnauthenticated {
		return "", unmeasured("own evidence: %v", err)
	}
	if err == nil {
		if problem := appcompose.CheckMark(compose, mark); problem != nil {
			return "", unmeasured("%v", problem)
		}
	}
	return compose, err
}

func checkMeasured(ctx context.Context, guest Guest, trustFile []byte) (compose string, err error) {
	if len(trustFile) == 0 {
		return "", unmeasured("there is no trust file")
	}
	var nonce [64]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return "", fmt.Errorf("make nonce: %w", err)
	}
	ev, err := guest.GetQuote(ctx, nonce[:])
	if err != nil {
		return "", fmt.Errorf("ask the guest agent for this CVM's own evidence: %w", err)
	}
	if len(ev.AppCompose) > appcompose.MaxSize {
		return "", unmeasured("app-compose.json has %d bytes, the limit is %d", len(ev.AppCompose), appcompose.MaxSize)
	}
	quote, err := parseQuote(ev.Quote)
	if err != nil {
		return "", err
	}
	body := quote.GetTdQuoteBody()
	if subtle.ConstantTimeCompare(body.GetReportData(), nonce[:]) != 1 {
		return "", unmeasured("the guest agent's quote is for other data")
	}
	boot, err := verifyLog(ev.EventLog, body)
	if err != nil {
		return "", err
	}
	if err := checkCompose(boot, ev.AppCompose); err != nil {
		return "", unmeasured("%v", err)
	}
	// If a document lets the environment choose the compose file, or any other part of the
	// workload, the document does not prove that this trust file is the mounted one.
	app, problems := appcompose.Judge(ev.AppCompose, rulesOf(trustFile, boot.keyProvider.ID))
	if len(problems) > 0 {
		return "", unmeasured("app-compose.json: %s", appcompose.Texts(problems))
	}
	if err := standsIn(app.Compose, string(trustFile)); err != nil {
		return "", err
	}
	return app.Compose, nil
}

// rulesOf returns a trust file's rules for documents; the strictest rules if it cannot be read.
func rulesOf(trustFile []byte, keyProvider string) appcompose.Rules {
	var trust struct {
		Scripts       []string `json:"pre_launch_scripts_sha256"`
		SecureTimeOff bool     `json:"secure_time_off"`
	}
	if strictjson.UnmarshalOpen(trustFile, &trust) != nil {
		return appcompose.Rules{KeyProviderID: keyProvider}
	}
	return appcompose.Rules{Scripts: trust.Scripts, KeyProviderID: keyProvider, SecureTimeOff: trust.SecureTimeOff}
}

// standsIn looks for a config whose content is text. Compose would replace a placeholder in it from
// the environment, so a text with a placeholder is never found.
func standsIn(composeFile, text string) error {
	if strings.Contains(text, "$") {
		return unmeasured("the trust file has a '$', which compose would read as a placeholder")
	}
	var file struct {
		Configs map[string]struct {
			Content yaml.Node `yaml:"content"`
		} `yaml:"configs"`
	}
	if err := yaml.Unmarshal([]byte(composeFile), &file); err != nil {
		return unmeasured("the measured docker_compose_file: %v", err)
	}
	for _, config := range file.Configs {
		content := config.Content
		if content.Kind == yaml.ScalarNode && content.Value == text {
			return nil
		}
	}
	return unmeasured("the trust file does not stand in a config of the measured compose file, where it must be a literal content")
}

func unmeasured(format string, args ...any) error {
	return refuse(policy.CodeConfigUnauthenticated, format, args...)
}
