package kmsauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/strictjson"
)

// Bounds of a request. The key services of dstack 0.5.5 send the event log too.
const (
	maxBody = 2 << 20
	maxText = 512
	maxList = 128
)

// BootInfo has the facts that a key service verified about a boot. Each version of it sends more fields.
type BootInfo struct {
	MRAggregated string   `json:"mrAggregated"`
	OSImageHash  string   `json:"osImageHash"`
	AppID        string   `json:"appId"`
	ComposeHash  string   `json:"composeHash"`
	InstanceID   string   `json:"instanceId"`
	DeviceID     string   `json:"deviceId"`
	TCBStatus    string   `json:"tcbStatus"`
	AdvisoryIDs  []string `json:"advisoryIds"`
}

// parse reads a request: known fields strictly, fields of other versions not at all.
func parse(body []byte) (b BootInfo, err error) {
	if err := strictjson.UnmarshalOpen(body, &b); err != nil {
		return b, err
	}
	var errs []error
	for _, f := range []struct {
		name, value string
		bytes       int
	}{
		{"mrAggregated", b.MRAggregated, hashBytes}, {"osImageHash", b.OSImageHash, hashBytes}, {"appId", b.AppID, appBytes},
		{"composeHash", b.ComposeHash, hashBytes}, {"instanceId", b.InstanceID, appBytes}, {"deviceId", b.DeviceID, hashBytes},
	} {
		plain := plainHex(f.value)
		if len(plain) > 2*f.bytes || strings.Trim(plain, "0123456789abcdef") != "" {
			errs = append(errs, fmt.Errorf("%s: %.80q is not at most %d hex digits", f.name, f.value, 2*f.bytes))
		}
	}
	if len(b.TCBStatus) > maxText {
		errs = append(errs, fmt.Errorf("tcbStatus: has more than %d bytes", maxText))
	}
	if len(b.AdvisoryIDs) > maxList || slices.ContainsFunc(b.AdvisoryIDs, func(id string) bool { return len(id) > maxText }) {
		errs = append(errs, fmt.Errorf("advisoryIds: has more than %d entries, or one of more than %d bytes", maxList, maxText))
	}
	return b, errors.Join(errs...)
}

// Answer to the key service.
type Answer struct {
	IsAllowed    bool   `json:"isAllowed"`
	GatewayAppID string `json:"gatewayAppId"`
	Reason       string `json:"reason"`
}

// judge decides by the File. ask: the File allows the image and the machine, and the app is not its
// own, so the coordinators decide.
func (f File) judge(b BootInfo, keyService bool) (a Answer, ask bool) {
	deny := func(format string, args ...any) (Answer, bool) {
		return Answer{GatewayAppID: f.GatewayAppID, Reason: fmt.Sprintf(format, args...)}, false
	}
	statuses := f.AllowedTCBStatuses
	if statuses == nil {
		statuses = []string{"UpToDate"}
	}
	if !slices.Contains(statuses, b.TCBStatus) {
		return deny("TCB status %.80q is not in allowedTcbStatuses", b.TCBStatus)
	}
	for _, id := range b.AdvisoryIDs {
		if !slices.Contains(f.AllowedAdvisoryIDs, id) {
			return deny("advisory %.80q is not in allowedAdvisoryIds", id)
		}
	}
	if !has(f.OSImages, b.OSImageHash) {
		return deny("OS image %s is not in osImages", b.OSImageHash)
	}
	if keyService {
		switch {
		case !has(f.KMS.MRAggregated, b.MRAggregated):
			return deny("measurement %s is not in kms.mrAggregated", b.MRAggregated)
		case !anyDevice(f.KMS.AllowAnyDevice, f.KMS.Devices, b.DeviceID):
			return deny("device %s is not in kms.devices", b.DeviceID)
		}
		return Answer{IsAllowed: true, GatewayAppID: f.GatewayAppID}, false
	}
	one, own := f.app(b.AppID)
	switch {
	case !own:
		return Answer{GatewayAppID: f.GatewayAppID}, true
	case !has(one.ComposeHashes, b.ComposeHash):
		return deny("compose hash %s is not in the composeHashes of app %s", b.ComposeHash, b.AppID)
	case !anyDevice(one.AllowAnyDevice, one.Devices, b.DeviceID):
		return deny("device %s is not in the devices of app %s", b.DeviceID, b.AppID)
	}
	return Answer{IsAllowed: true, GatewayAppID: f.GatewayAppID}, false
}

func has(list []string, id string) bool {
	return plainHex(id) != "" && slices.ContainsFunc(list, func(one string) bool { return plainHex(one) == plainHex(id) })
}

func anyDevice(all bool, devices []string, id string) bool {
	return all || len(devices) == 0 || has(devices, id)
}
