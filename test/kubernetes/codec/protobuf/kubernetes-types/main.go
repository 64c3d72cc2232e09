// Package main prints the messages of the Kubernetes API, read off its Go types, in the notation of
// src/kubernetes/codec/protobuf/schema.ts: every field with its name, number and type, and what its json tag says of
// empty values. The release is that of the modules in go.mod.
package main

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// special types have a text, a number or JSON of any form in the place of an object.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():               "time",
	reflect.TypeFor[metav1.MicroTime]():          "microtime",
	reflect.TypeFor[metav1.Duration]():           "duration",
	reflect.TypeFor[metav1.FieldsV1]():           "json",
	reflect.TypeFor[resource.Quantity]():         "quantity",
	reflect.TypeFor[intstr.IntOrString]():        "intorstring",
	reflect.TypeFor[runtime.RawExtension]():      "json",
	reflect.TypeFor[apiextensionsv1.JSON]():      "json",
	reflect.TypeFor[apiextensionsv1beta1.JSON](): "json",
}

// either names the types that are written as one of their members.
var either = map[string]string{
	"JSONSchemaPropsOrArray":       "|array",
	"JSONSchemaPropsOrBool":        "|bool",
	"JSONSchemaPropsOrStringArray": "|array",
}

// The aliases keep the table short.
var aliases = [][2]string{{"m", packageOf(reflect.TypeFor[metav1.ObjectMeta]())}, {"c", "k8s.io.api.core.v1"}}

var scalars = map[reflect.Kind]string{
	reflect.String:  "string",
	reflect.Bool:    "bool",
	reflect.Int32:   "int32",
	reflect.Int64:   "int64",
	reflect.Float64: "double",
}

var typeMeta = reflect.TypeFor[metav1.TypeMeta]()

type table struct {
	// versions maps a package to the apiVersion of its kinds.
	versions map[string]string
	// lines maps a package to its messages by name.
	lines map[string]map[string]string
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgo.AddToScheme,
		admissionv1.AddToScheme, admissionv1beta1.AddToScheme,
		apidiscoveryv2.AddToScheme, apidiscoveryv2beta1.AddToScheme,
		imagepolicyv1alpha1.AddToScheme,
		apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme,
		apiregistrationv1.AddToScheme, apiregistrationv1beta1.AddToScheme,
		metav1.AddMetaToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Group: metav1.GroupName, Version: "v1"})

	t := table{versions: map[string]string{}, lines: map[string]map[string]string{}}
	meta := aliases[0][1]
	t.versions[meta] = "meta.k8s.io/v1"
	for gvk, goType := range scheme.AllKnownTypes() {
		isMeta := packageOf(goType) == meta
		// Lists are put together on the wire.
		if gvk.Version == runtime.APIVersionInternal || !isMessage(goType) || strings.HasSuffix(gvk.Kind, "List") && !isMeta {
			continue
		}
		if !isMeta {
			t.versions[packageOf(goType)] = gvk.GroupVersion().String()
		}
		t.add(goType)
	}
	t.print()
}

func packageOf(t reflect.Type) string {
	return strings.NewReplacer("/", ".", "-", "_").Replace(t.PkgPath())
}

func isMessage(t reflect.Type) bool {
	_, ok := reflect.PointerTo(t).MethodByName("MarshalToSizedBuffer")
	return ok
}

// add describes a message and whatever it refers to.
func (t table) add(goType reflect.Type) {
	name, inPackage := goType.Name(), packageOf(goType)
	if t.lines[inPackage] == nil {
		t.lines[inPackage] = map[string]string{}
	}
	if _, known := t.lines[inPackage][name]; known {
		return
	}
	t.lines[inPackage][name] = ""
	if goType.Kind() == reflect.Slice {
		t.lines[inPackage][name] = name + "[] items:1:[]" + t.typeOf(goType.Elem(), inPackage)
		return
	}
	mark := either[name]
	fields := []string{}
	for i := range goType.NumField() {
		field := goType.Field(i)
		if field.Type == typeMeta {
			mark = "*"
			continue
		}
		if text := t.fieldOf(field, inPackage); text != "" {
			fields = append(fields, text)
		}
	}
	t.lines[inPackage][name] = strings.Join(append([]string{name + mark}, fields...), " ")
}

func (t table) fieldOf(field reflect.StructField, inPackage string) string {
	protobuf := strings.Split(field.Tag.Get("protobuf"), ",")
	json := strings.Split(field.Tag.Get("json"), ",")
	if len(protobuf) < 2 || json[0] == "-" && len(json) == 1 {
		return ""
	}
	name, options := json[0], json[1:]
	omits := ""
	for _, option := range options {
		switch option {
		case "omitempty":
			omits = "?" + omits
		case "omitzero":
			omits += "?"
		}
	}
	label, goType := "", field.Type
	// A type of its own is a message, whatever it is made of.
	if !isMessage(goType) {
		switch {
		case goType.Kind() == reflect.Pointer:
			label, goType = "*", goType.Elem()
		case goType.Kind() == reflect.Map:
			label, goType = "{}", goType.Elem()
		case goType.Kind() == reflect.Slice && goType.Elem().Kind() != reflect.Uint8:
			label, goType = "[]", goType.Elem()
		}
	}
	return fmt.Sprintf("%s%s:%s:%s%s", name, omits, protobuf[1], label, t.typeOf(goType, inPackage))
}

func (t table) typeOf(goType reflect.Type, inPackage string) string {
	if name, ok := special[goType]; ok {
		return name
	}
	if isMessage(goType) {
		t.add(goType)
		name := packageOf(goType)
		if name == inPackage {
			return goType.Name()
		}
		for _, alias := range aliases {
			if alias[1] == name {
				name = alias[0]
			}
		}
		return name + "/" + goType.Name()
	}
	if goType.Kind() == reflect.Slice && goType.Elem().Kind() == reflect.Uint8 {
		return "bytes"
	}
	if name, ok := scalars[goType.Kind()]; ok {
		return name
	}
	panic(fmt.Sprintf("%v has no type in protobuf", goType))
}

func (t table) print() {
	out := os.Stdout
	for _, alias := range aliases {
		fmt.Fprintln(out, "=", alias[0], alias[1])
	}
	packages := []string{}
	for name := range t.lines {
		packages = append(packages, name)
	}
	sort.Strings(packages)
	for _, name := range packages {
		fmt.Fprintln(out, "@", name, t.versions[name])
		messages := []string{}
		for message := range t.lines[name] {
			messages = append(messages, message)
		}
		sort.Strings(messages)
		for _, message := range messages {
			fmt.Fprintln(out, t.lines[name][message])
		}
	}
}
