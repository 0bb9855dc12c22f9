package dstackverifier

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson"
)

// answer is the service's reply. Pointers separate a missing verdict from a false one: a missing
// verdict counts as no verdict. Newer versions add names; those are ignored, and no verdict is
// taken from a second place.
type answer struct {
	IsValid *bool    `json:"is_valid"`
	Reason  *string  `json:"reason"`
	Details *details `json:"details"`
}

type details struct {
	QuoteVerified    *bool     `json:"quote_verified"`
	EventLogVerified *bool     `json:"event_log_verified"`
	OSImageVerified  *bool     `json:"os_image_hash_verified"`
	ReportData       *string   `json:"report_data"`
	TCBStatus        *string   `json:"tcb_status"`
	Advisories       *[]string `json:"advisory_ids"`
	AppInfo          *appInfo  `json:"app_info"`
	// Newer versions report this about the image; a development image is rejected.
	OSImageIsDev *bool `json:"os_image_is_dev"`
}

type appInfo struct {
	AppID       *string `json:"app_id"`
	ComposeHash *string `json:"compose_hash"`
	InstanceID  *string `json:"instance_id"`
	DeviceID    *string `json:"device_id"`
	MRSystem    *string `json:"mr_system"`
	MRAggregate *string `json:"mr_aggregated"`
	OSImageHash *string `json:"os_image_hash"`
	KeyProvider *string `json:"key_provider_info"`
}

// maxAdvisories bounds the list; a level names some dozens at most.
const maxAdvisories = 256

// readAnswer takes the claims from an answer in which everything is as it must be.
func readAnswer(text []byte, reportData [64]byte) (policy.Claims, error) {
	var a answer
	if err := strictjson.UnmarshalOpen(text, &a); err != nil {
		return policy.Claims{}, fmt.Errorf("answer: %w", err)
	}
	d := a.Details
	switch {
	case a.IsValid == nil || d == nil:
		return policy.Claims{}, errors.New("answer without is_valid or details")
	case !*a.IsValid:
		return policy.Claims{}, fmt.Errorf("%w: %.200q", errNegative, reasonOf(a))
	case a.Reason != nil && *a.Reason != "":
		return policy.Claims{}, fmt.Errorf("is_valid is true and there is a reason: %.200q", *a.Reason)
	}
	for _, verdict := range []struct {
		name string
		is   *bool
	}{{"quote_verified", d.QuoteVerified}, {"event_log_verified", d.EventLogVerified}, {"os_image_hash_verified", d.OSImageVerified}} {
		if verdict.is == nil || !*verdict.is {
			return policy.Claims{}, fmt.Errorf("is_valid is true, %s is not", verdict.name)
		}
	}
	if d.OSImageIsDev != nil && *d.OSImageIsDev {
		return policy.Claims{}, errors.New("the OS image is a development image")
	}
	if d.ReportData == nil || *d.ReportData != hex.EncodeToString(reportData[:]) {
		return policy.Claims{}, errors.New("the answer is about other report data")
	}
	if d.TCBStatus == nil || *d.TCBStatus == "" || d.Advisories == nil || len(*d.Advisories) > maxAdvisories {
		return policy.Claims{}, errors.New("answer without tcb_status or advisory_ids")
	}
	if d.AppInfo == nil {
		return policy.Claims{}, errors.New("answer without app_info")
	}
	claims, err := d.AppInfo.claims()
	if err != nil {
		return policy.Claims{}, err
	}
	claims.TCB.Status, claims.TCB.Advisories = *d.TCBStatus, slices.Compact(slices.Sorted(slices.Values(*d.Advisories)))
	return claims, nil
}

func reasonOf(a answer) string {
	if a.Reason == nil {
		return ""
	}
	return *a.Reason
}

// claims: a field that is empty is an event that was missing; upstream turns one
// into the other.
func (a appInfo) claims() (policy.Claims, error) {
	for _, field := range []struct {
		name  string
		value *string
		size  int // in hex digits; 0: any
	}{
		{"app_id", a.AppID, 40}, {"compose_hash", a.ComposeHash, 64}, {"instance_id", a.InstanceID, 40}, {"os_image_hash", a.OSImageHash, 64},
		{"key_provider_info", a.KeyProvider, 0}, {"device_id", a.DeviceID, 0}, {"mr_system", a.MRSystem, 0}, {"mr_aggregated", a.MRAggregate, 0},
	} {
		if field.value == nil || *field.value == "" {
			return policy.Claims{}, fmt.Errorf("app_info.%s is empty", field.name)
		}
		if raw, err := hex.DecodeString(*field.value); err != nil || hex.EncodeToString(raw) != *field.value || field.size > 0 && len(*field.value) != field.size {
			return policy.Claims{}, fmt.Errorf("app_info.%s is not %d lower-case hex digits", field.name, field.size)
		}
	}
	text, err := hex.DecodeString(*a.KeyProvider)
	if err != nil {
		return policy.Claims{}, fmt.Errorf("app_info.key_provider_info: %w", err)
	}
	var provider struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	}
	if err := strictjson.Unmarshal(text, &provider); err != nil {
		return policy.Claims{}, fmt.Errorf("app_info.key_provider_info: %w", err)
	}
	if provider.Name == "" || provider.ID == "" {
		return policy.Claims{}, errors.New("app_info.key_provider_info names no key provider")
	}
	return policy.Claims{
		AppID: *a.AppID, ComposeHash: *a.ComposeHash, InstanceID: *a.InstanceID, OSImageHash: *a.OSImageHash,
		KeyProviderName: provider.Name, KeyProviderID: provider.ID,
	}, nil
}
