package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

func digits(c string, n int) string { return strings.Repeat(c, n) }

func text256(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

type exchange struct {
	sp SlotPolicy
	ip ImagePolicy
	st Statement
	c  Claims
}

// admissible is an exchange in which everything is as the policy wants it.
func admissible() exchange {
	m := Measurement{MRTD: digits("1", 96), RTMR0: digits("2", 96), RTMR1: digits("3", 96), RTMR2: digits("4", 96)}
	app, instance, hash := digits("a", 40), digits("b", 40), digits("c", 64)
	return exchange{
		sp: SlotPolicy{Group: "db", Slot: "db-1", AppID: app, InstanceID: instance, Allowed: []AllowedRevision{
			{Revision: "old", ComposeHash: digits("d", 64), ComposeTextSHA256: text256("old text"), OSImage: "dstack-0.5.7"},
			{Revision: "new", ComposeHash: hash, ComposeTextSHA256: text256("text"), OSImage: "dstack-0.5.7"},
		}},
		ip: ImagePolicy{KeyProviderName: "kms", KeyProviderID: "00ff", Images: map[string][]Measurement{
			"dstack-0.5.7": {{MRTD: digits("9", 96), RTMR0: digits("9", 96), RTMR1: digits("9", 96), RTMR2: digits("9", 96)}, m},
			"dstack-0.5.8": {{MRTD: digits("5", 96), RTMR0: digits("5", 96), RTMR1: digits("5", 96), RTMR2: digits("5", 96)}},
		}},
		st: Statement{Cluster: "demo", Group: "db", Slot: "db-1", AppID: app, InstanceID: instance, ComposeHash: hash},
		c: Claims{AppID: app, InstanceID: instance, ComposeHash: hash, ComposeText: "text", KeyProviderName: "kms", KeyProviderID: "00ff",
			MRTD: m.MRTD, RTMR0: m.RTMR0, RTMR1: m.RTMR1, RTMR2: m.RTMR2, TCB: TCB{Status: "UpToDate"}},
	}
}

func (e exchange) appraise() Decision { return Appraise(e.sp, e.ip, e.st, e.c, noon) }

func TestAppraiseAllowsTheRevisionsThatThePolicyNames(t *testing.T) {
	e := admissible()
	if d := e.appraise(); !d.Allowed || d.Revision != "new" || d.Code != "" {
		t.Errorf("decision %+v", d)
	}
	e.c.ComposeHash, e.st.ComposeHash, e.c.ComposeText = digits("d", 64), digits("d", 64), "old text"
	if d := e.appraise(); !d.Allowed || d.Revision != "old" {
		t.Errorf("the old revision: %+v", d)
	}
	e = admissible()
	e.c.ComposeHash = "0x" + strings.ToUpper(e.c.ComposeHash) // ATT-15: another spelling is equal
	if d := e.appraise(); !d.Allowed {
		t.Errorf("another spelling of the hash: %+v", d)
	}
	e = admissible()
	e.c.Simulated, e.ip.AllowSimulated = true, true
	if d := e.appraise(); !d.Allowed {
		t.Errorf("a simulated root that is named: %+v", d)
	}
}

func TestATT20_ATT21_ATT22_AppraiseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*exchange)
		want Code
	}{
		"ATT-23 another app stated":            {func(e *exchange) { e.st.AppID = digits("9", 40) }, CodeStatementMismatch},
		"ATT-23 another instance stated":       {func(e *exchange) { e.st.InstanceID = digits("9", 40) }, CodeStatementMismatch},
		"ATT-23 another hash stated":           {func(e *exchange) { e.st.ComposeHash = digits("9", 64) }, CodeStatementMismatch},
		"ATT-23 nothing stated":                {func(e *exchange) { e.st = Statement{} }, CodeStatementMismatch},
		"ATT-22 another app":                   {func(e *exchange) { e.sp.AppID = digits("9", 40) }, CodeAppIDMismatch},
		"ATT-22 no app bound":                  {func(e *exchange) { e.sp.AppID = "" }, CodeAppIDMismatch},
		"IDN another slot":                     {func(e *exchange) { e.st.Slot = "db-2" }, CodeSlotMismatch},
		"IDN another group":                    {func(e *exchange) { e.st.Group = "etcd" }, CodeSlotMismatch},
		"IDN another instance":                 {func(e *exchange) { e.sp.InstanceID = digits("9", 40) }, CodeInstanceMismatch},
		"IDN no instance bound":                {func(e *exchange) { e.sp.InstanceID = "" }, CodeInstanceMismatch},
		"ATT-33 no instance id":                {func(e *exchange) { e.sp.InstanceID, e.st.InstanceID, e.c.InstanceID = "", "", "" }, CodeInstanceMismatch},
		"ATT-21 another key provider":          {func(e *exchange) { e.c.KeyProviderName = "local" }, CodeKMSPolicyMismatch},
		"ATT-21 another root of it":            {func(e *exchange) { e.c.KeyProviderID = "00fe" }, CodeKMSPolicyMismatch},
		"ATT-21 no key provider":               {func(e *exchange) { e.c.KeyProviderName, e.c.KeyProviderID = "", "" }, CodeKMSPolicyMismatch},
		"ATT-04 TCB not evaluated":             {func(e *exchange) { e.c.TCB = TCB{} }, CodeCollateralUnavailable},
		"ATT-04 TCB out of date":               {func(e *exchange) { e.c.TCB.Status = "OutOfDate" }, CodeTCBOutOfDate},
		"ATT-20 MRTD off by one":               {func(e *exchange) { e.c.MRTD = digits("1", 95) + "2" }, CodeMeasurementMismatch},
		"ATT-20 RTMR0 off by one":              {func(e *exchange) { e.c.RTMR0 = digits("2", 95) + "3" }, CodeMeasurementMismatch},
		"ATT-20 RTMR1 off by one":              {func(e *exchange) { e.c.RTMR1 = digits("3", 95) + "4" }, CodeMeasurementMismatch},
		"ATT-20 RTMR2 off by one":              {func(e *exchange) { e.c.RTMR2 = digits("4", 95) + "5" }, CodeMeasurementMismatch},
		"ATT-20 another image of the policy":   {func(e *exchange) { e.sp.Allowed[1].OSImage = "dstack-0.5.8" }, CodeOSImageForbidden},
		"ATT-20 an image without measurements": {func(e *exchange) { e.sp.Allowed[1].OSImage = "" }, CodeOSImageForbidden},
		"ATT-15 another hash":                  {func(e *exchange) { e.sp.Allowed[1].ComposeHash = digits("e", 64) }, CodeRevisionNotAllowed},
		"ATT-15 a truncated hash":              {func(e *exchange) { short := e.c.ComposeHash[:63]; e.st.ComposeHash, e.c.ComposeHash = short, short }, CodeRevisionNotAllowed},
		"ATT-15 nothing allowed":               {func(e *exchange) { e.sp.Allowed = nil }, CodeRevisionNotAllowed},
		"ATT-15 empty hashes":                  {func(e *exchange) { e.sp.Allowed[1].ComposeHash, e.c.ComposeHash, e.st.ComposeHash = "", "x", "y" }, CodeRevisionNotAllowed},
		"ATT-15 a revision without a name":     {func(e *exchange) { e.sp.Allowed[1].Revision = "" }, CodeRevisionNotAllowed},
		"ATT-16 another compose text":          {func(e *exchange) { e.c.ComposeText = "text " }, CodeComposeForbidden},
		"ATT-16 no digest of the text":         {func(e *exchange) { e.sp.Allowed[1].ComposeTextSHA256 = "" }, CodeComposeForbidden},
		"ATT-16 an unacceptable app-compose":   {func(e *exchange) { e.c.AppComposeProblem = "pre_launch_script" }, CodeComposeForbidden},
		"ATT-02 a simulated root":              {func(e *exchange) { e.c.Simulated = true }, CodeTEETypeForbidden},
		"ATT-21 no pin of the provider's name": {func(e *exchange) { e.ip.KeyProviderName, e.c.KeyProviderName = "", "" }, CodePolicyInvalid},
		"ATT-21 no pin of the provider's id":   {func(e *exchange) { e.ip.KeyProviderID, e.c.KeyProviderID = "", "" }, CodePolicyInvalid},
		"ATT-20 no images":                     {func(e *exchange) { e.ip.Images = nil }, CodePolicyInvalid},
		"ATT-20 an empty measurement": {func(e *exchange) {
			e.ip.Images["dstack-0.5.7"] = []Measurement{{}}
			e.c.MRTD, e.c.RTMR0, e.c.RTMR1, e.c.RTMR2 = "", "", "", ""
		}, CodePolicyInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			e := admissible()
			c.edit(&e)
			d := e.appraise()
			if d.Allowed || d.Revision != "" || d.Code != c.want || d.Message == "" {
				t.Errorf("decision %+v, want %s", d, c.want)
			}
		})
	}
}

func TestZeroValuesDeny(t *testing.T) {
	if d := (exchange{}).appraise(); d.Allowed || d.Code != CodePolicyInvalid {
		t.Errorf("decision %+v", d)
	}
	e := admissible()
	e.sp = SlotPolicy{}
	if d := e.appraise(); d.Allowed {
		t.Errorf("decision %+v", d)
	}
	e = admissible()
	e.c = Claims{}
	if d := e.appraise(); d.Allowed {
		t.Errorf("decision %+v", d)
	}
}

func TestTheNewestOfTwoRevisionsWithOneHashIsMeant(t *testing.T) {
	e := admissible()
	newest := e.sp.Allowed[1]
	newest.Revision = "newest" // only env differs
	e.sp.Allowed = append(e.sp.Allowed, newest)
	if d := e.appraise(); !d.Allowed || d.Revision != "newest" {
		t.Errorf("decision %+v", d)
	}
	e.sp.Allowed[2].ComposeTextSHA256 = text256("another text")
	if d := e.appraise(); !d.Allowed || d.Revision != "new" {
		t.Errorf("decision %+v", d)
	}
}

func TestMessagesCarryNoSecretsOfThePolicy(t *testing.T) {
	e := admissible()
	e.c.KeyProviderID = "other"
	if d := e.appraise(); strings.Contains(d.Message, "00ff") {
		t.Errorf("message %q", d.Message)
	}
}

func TestEveryCodeHasAClass(t *testing.T) {
	for code, class := range classes {
		switch class {
		case ClassCaller, ClassPolicy, ClassRetry, ClassAlarm, ClassState:
		default:
			t.Errorf("%s has class %q", code, class)
		}
		if !code.Known() {
			t.Errorf("%s is not known", code)
		}
	}
	if Code("NO_SUCH_CODE").Known() || Code("").Known() {
		t.Error("a code outside the list is known")
	}
}

func TestImagePolicyValidateReportsEverything(t *testing.T) {
	err := ImagePolicy{Images: map[string][]Measurement{"a": nil, "b": {{MRTD: "x"}}}}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"key_provider_name", "key_provider_id", `images["a"]`, `images["b"][0]`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if err := admissible().ip.Validate(); err != nil {
		t.Errorf("a good policy: %v", err)
	}
}
