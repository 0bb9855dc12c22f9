package strictjsontest

import (
	"encoding"
	"encoding/json"
	"reflect"
	"time"
)

// Filled is a T with one element in each list and map, and no field absent, so that each
// decoder of a T is tried with a value in every place.
func Filled[T any]() T {
	return FilledOf(reflect.TypeFor[T]()).Interface().(T) //nolint:errcheck // it was made of this type
}

// FilledOf is Filled of a type that only the caller's table knows.
func FilledOf(typ reflect.Type) reflect.Value { return filled(typ, nil) }

func filled(typ reflect.Type, above []reflect.Type) reflect.Value {
	v := reflect.New(typ).Elem()
	switch typ {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		return v
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte("{}"))
		return v
	}
	for _, one := range above {
		if one == typ {
			return v // a type within itself ends here
		}
	}
	switch typ.Kind() { //nolint:exhaustive // records have no other kinds
	case reflect.Pointer:
		v.Set(filled(typ.Elem(), above).Addr())
	case reflect.Struct:
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() {
				v.Field(i).Set(filled(typ.Field(i).Type, append(above[:len(above):len(above)], typ)))
			}
		}
	case reflect.Slice:
		v.Set(reflect.Append(v, filled(typ.Elem(), above)))
	case reflect.Map:
		v.Set(reflect.MakeMap(typ))
		v.SetMapIndex(filled(typ.Key(), above), filled(typ.Elem(), above))
	case reflect.String:
		v.SetString("a")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
		if _, text := v.Interface().(encoding.TextMarshaler); text {
			v.SetInt(int64(20 * time.Minute)) // a duration
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	}
	return v
}
