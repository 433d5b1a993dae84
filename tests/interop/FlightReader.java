import java.io.FileOutputStream;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.flight.CallOption;
import org.apache.arrow.flight.Criteria;
import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightDescriptor;
import org.apache.arrow.flight.FlightEndpoint;
import org.apache.arrow.flight.FlightInfo;
import org.apache.arrow.flight.FlightRuntimeException;
import org.apache.arrow.flight.FlightStream;
import org.apache.arrow.flight.Location;
import org.apache.arrow.flight.Ticket;
import org.apache.arrow.flight.auth2.BearerCredentialWriter;
import org.apache.arrow.flight.grpc.CredentialCallOption;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;

/**
 * A client of a Flight server: PORT TOKEN FOLDER REQUEST...
 *
 * <p>A request is `list`, `path:NAME`, `forged:NAME` (its first ticket with one bit changed), or a command in JSON. Of
 * request i, the rows of endpoint j are written to FOLDER/i-j.arrow. One line is printed for each request:
 * `ok ENDPOINTS ORDERED RECORDS`, `list NAME...` or `error CODE TEXT`.
 */
public final class FlightReader {
  public static void main(String[] arguments) throws Exception {
    Location location = Location.forGrpcInsecure("127.0.0.1", Integer.parseInt(arguments[0]));
    CallOption[] options =
        arguments[1].isEmpty()
            ? new CallOption[0]
            : new CallOption[] {new CredentialCallOption(new BearerCredentialWriter(arguments[1]))};
    try (BufferAllocator allocator = new RootAllocator();
        FlightClient client = FlightClient.builder(allocator, location).build()) {
      for (int number = 3; number < arguments.length; number++) {
        Path folder = Path.of(arguments[2]);
        try {
          System.out.println(answer(client, arguments[number], folder.resolve((number - 3) + "-").toString(), options));
        } catch (FlightRuntimeException error) {
          System.out.println("error " + error.status().code() + " " + error.getMessage().split("\n")[0]);
        }
      }
    }
  }

  private static String answer(FlightClient client, String request, String prefix, CallOption[] options)
      throws Exception {
    if (request.equals("list")) {
      List<String> names = new ArrayList<>();
      client.listFlights(Criteria.ALL, options).forEach(flight -> names.add(flight.getDescriptor().getPath().get(0)));
      return "list " + String.join(" ", names);
    }
    boolean forged = request.startsWith("forged:");
    FlightDescriptor descriptor =
        forged || request.startsWith("path:")
            ? FlightDescriptor.path(request.substring(request.indexOf(':') + 1))
            : FlightDescriptor.command(request.getBytes(StandardCharsets.UTF_8));
    FlightInfo info = client.getInfo(descriptor, options);
    List<FlightEndpoint> endpoints = info.getEndpoints();
    for (int number = 0; number < endpoints.size(); number++) {
      byte[] ticket = endpoints.get(number).getTicket().getBytes();
      if (forged) {
        ticket[ticket.length - 1] ^= 1;
      }
      write(client, new Ticket(ticket), prefix + number + ".arrow", options);
    }
    return "ok " + endpoints.size() + " " + info.getOrdered() + " " + info.getRecords();
  }

  private static void write(FlightClient client, Ticket ticket, String file, CallOption[] options) throws Exception {
    try (FlightStream stream = client.getStream(ticket, options)) {
      VectorSchemaRoot root = stream.getRoot();
      try (FileOutputStream out = new FileOutputStream(file);
          ArrowStreamWriter writer =
              new ArrowStreamWriter(root, stream.getDictionaryProvider(), Channels.newChannel(out))) {
        writer.start();
        while (stream.next()) {
          writer.writeBatch();
        }
        writer.end();
      }
    }
  }
}
