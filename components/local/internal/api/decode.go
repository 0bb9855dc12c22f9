package api

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
)

// errFields are the problems of a request's body, in the shape of FastAPI.
type errFields []map[string]any

func (e errFields) Error() string {
	text, _ := json.Marshal(e)
	return string(text)
}

// badBody is one problem at loc, "body" left out.
func badBody(kind, message string, loc ...string) errFields {
	return errFields{{"type": kind, "loc": append([]string{"body"}, loc...), "msg": message}}
}

// decode reads a JSON body as the real server does: keys that the struct v does not name,
// letter by letter, are dropped, a value of another type is refused with its place, and an
// empty body leaves v as it is.
func decode(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return badBody("bytes_too_long", err.Error())
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil
	}
	if !json.Valid(body) {
		return badBody("json_invalid", "JSON decode error")
	}
	if problems := decodeObject(body, reflect.ValueOf(v).Elem(), []string{"body"}); len(problems) > 0 {
		return problems
	}
	return nil
}

func decodeObject(raw []byte, into reflect.Value, loc []string) (problems errFields) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return errFields{{"type": "model_attributes_type", "loc": loc, "msg": "Input should be a valid dictionary or object to extract fields from"}}
	}
	for i := range into.NumField() {
		name := into.Type().Field(i).Tag.Get("json")
		value, ok := fields[name]
		if !ok || string(value) == "null" {
			continue
		}
		at := append(append([]string{}, loc...), name)
		field := into.Field(i)
		if field.Kind() == reflect.Struct {
			problems = append(problems, decodeObject(value, field, at)...)
			continue
		}
		if json.Unmarshal(value, field.Addr().Interface()) == nil {
			continue
		}
		kind, message := wanted(field.Type())
		problems = append(problems, map[string]any{"type": kind, "loc": at, "msg": message, "input": value})
	}
	return problems
}

// wanted is the real server's error for a value that is no t.
func wanted(t reflect.Type) (kind, message string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "string_type", "Input should be a valid string"
	case reflect.Bool:
		return "bool_type", "Input should be a valid boolean"
	case reflect.Slice:
		return "list_type", "Input should be a valid list"
	case reflect.Map:
		return "dict_type", "Input should be a valid dictionary"
	default:
		return "int_type", "Input should be a valid integer"
	}
}

// decodeLocal reads a JSON body of an endpoint that no real server has.
func decodeLocal(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return badBody("bytes_too_long", err.Error())
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return badBody("value_error", err.Error())
	}
	return nil
}

// text reads a body that is a text, as of a YAML file or a script.
func text(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", badBody("bytes_too_long", err.Error())
	}
	return string(body), nil
}
