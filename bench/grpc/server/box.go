package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
)

// Box is a message of fields that hold any other: one, and a list. No file of its service imports what they hold.
var Box = describe()

func describe() protoreflect.MessageDescriptor {
	field := func(name string, number int32, label descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number), Label: label.Enum(),
			Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: proto.String(".google.protobuf.Any"),
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("box.proto"), Package: proto.String("box"), Syntax: proto.String("proto3"), Dependency: []string{anypb.File_google_protobuf_any_proto.Path()},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Box"), Field: []*descriptorpb.FieldDescriptorProto{
			field("held", 1, descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL), field("more", 2, descriptorpb.FieldDescriptorProto_LABEL_REPEATED),
		}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Store"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("Put"), InputType: proto.String(".box.Box"), OutputType: proto.String(".box.Box")},
		}}},
	}, protoregistry.GlobalFiles)
	if err == nil {
		err = protoregistry.GlobalFiles.RegisterFile(file)
	}
	if err != nil {
		panic(err)
	}
	return file.Messages().ByName("Box")
}

// registerStore adds the service box.Store, which answers with what it was sent, and keeps the latest one.
func (s *Server) registerStore() {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "box.Store", HandlerType: (*any)(nil), Metadata: "box.proto",
		Methods: []grpc.MethodDesc{{MethodName: "Put", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := dynamicpb.NewMessage(Box)
			if err := decode(in); err != nil {
				return nil, err
			}
			s.LastBox.Store(in)
			return in, nil
		}}},
	}, nil)
}
